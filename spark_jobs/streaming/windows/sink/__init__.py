"""Results of windowed statistics as parquet: kept as they come, asked by SQL, computed anew for a range."""
