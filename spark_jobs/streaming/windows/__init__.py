"""Windowed statistics: SQL queries over a stream, answered from partial aggregates of small slices of time."""
