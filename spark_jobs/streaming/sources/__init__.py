"""Decoders of what topics hold: CSV, JSON and Arrow, against a declared schema."""
