"""Datasets as tables of Delta Lake and Iceberg, and such tables as sources."""
