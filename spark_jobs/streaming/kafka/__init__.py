"""Topics of Kafka as logs of units."""
