"""Kafka topics as logs of units."""
