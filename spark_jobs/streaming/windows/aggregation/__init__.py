"""Grouping and partial aggregates of windowed statistics."""
