"""The SQL of streams: expressions, the WINDOWING clause, and their evaluation."""
