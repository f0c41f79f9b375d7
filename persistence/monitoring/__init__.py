"""What the platform tells of itself to others: metrics, alerts, logs as JSON, OpenLineage events."""
