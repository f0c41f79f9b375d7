"""A job as an application on Spark: start, supervision, monitoring, metrics, stop."""
