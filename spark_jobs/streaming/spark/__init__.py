"""Stream jobs on Spark: the only modules that know its sessions, queries and workers."""
