"""Looks into the files of a generation: its columns and a few of its rows, within bounds of bytes and time."""
