"""Results of windowed statistics as Parquet: written at intervals, queried by SQL, recomputed for a range."""
