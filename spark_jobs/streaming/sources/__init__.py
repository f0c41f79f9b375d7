"""Decoders of topic messages: CSV, JSON and Arrow, with a declared schema."""
