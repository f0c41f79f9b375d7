"""The unit of a join: stores, probes and migrates tuples."""
