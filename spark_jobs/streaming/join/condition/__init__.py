"""The condition of a join: its predicate in SQL, the key that it is routed by, and its evaluation."""
