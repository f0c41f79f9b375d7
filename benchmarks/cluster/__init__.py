"""The whole cluster: what its servers take, and everything at once on it under faults."""
