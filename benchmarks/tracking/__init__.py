"""The acker and what tracking costs, beside Storm's."""
