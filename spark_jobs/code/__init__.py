"""The code of operations: its hashed version, what it depends on, Python functions in Spark expressions."""
