"""Baselines for benchmarks, selected by name like installed plug-ins; the product does not import them."""
