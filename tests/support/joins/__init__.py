"""Joins: their parts in this process, and a job on a real Kafka."""
