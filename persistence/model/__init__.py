"""Datasets, their lineage and their costs, as plain values."""
