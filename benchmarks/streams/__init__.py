"""What the benchmarks of streams share: a broker, an application, a job that is timed, Spark's own streams."""
