"""Tuple tracking: which records of a stream have been processed by every stage, and which must be sent again."""
