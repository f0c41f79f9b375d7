"""The SQL of streams: expressions, the WINDOWING clause, how they are evaluated."""
