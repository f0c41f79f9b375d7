"""Windowed statistics: their steps, whole jobs, latency and scale, beside DuckDB, Polars, PySpark and PyFlink."""
