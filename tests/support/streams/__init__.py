"""Stream jobs on a real Kafka, and what stands in for their applications."""
