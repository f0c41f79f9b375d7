"""Everything that knows Spark: the registry of operations, the workflow's own, and what runs them."""
