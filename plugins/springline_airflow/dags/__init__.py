"""The platform's own DAGs, as functions that a user's DAG file calls."""
