"""Everything that uses Spark: the registry of operations, the example workflow's operations, and their runner.

Private, like all subpackages: the public names are imported from `springline`.
"""
