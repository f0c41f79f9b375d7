"""Places that hold bytes: one contract (`spec`), one file for each kind of place."""
