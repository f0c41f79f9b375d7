"""Executes the decisions: writes, persists, restores, evicts and retires datasets."""
