"""Everything that knows Spark: the registry of operations, the workflow's own, and what runs them.

Private, as all below: what is public is imported from `springline`.
"""
