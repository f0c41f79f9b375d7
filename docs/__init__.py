"""The documents, and what writes the parts of them that are generated."""
