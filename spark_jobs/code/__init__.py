"""The code of operations: its version (a hash), its dependencies, Python UDFs in Spark expressions."""
