"""Java for Spark: finding one, the class archive, secret settings."""
