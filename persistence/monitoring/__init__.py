"""What the platform reports about itself: metrics, alerts, JSON logs, OpenLineage events."""
