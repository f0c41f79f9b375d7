"""The catalog: a database of all generations, claims and readers."""
