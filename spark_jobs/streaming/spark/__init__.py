"""Stream jobs on Spark: the only modules that use its sessions, queries and workers."""
