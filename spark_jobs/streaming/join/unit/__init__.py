"""A unit of a join: the tuples that it stores, probes and hands over."""
