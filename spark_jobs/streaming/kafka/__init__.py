"""Kafka topics as logs of partitions."""
