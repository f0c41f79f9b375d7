"""Joins of skewed streams: one unit, routing by counts, moves of state, whole jobs, beside Spark and DuckDB."""
