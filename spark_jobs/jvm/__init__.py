"""Java for Spark: where it is, the archive of its classes, settings that are kept secret."""
