"""A task of a join: stores, probes and migrates the tuples of its units."""
