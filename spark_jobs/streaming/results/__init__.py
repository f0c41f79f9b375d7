"""A job's results: read as they come, kept as parquet, asked by SQL, told anew for a range."""
