"""Routing of tuples to units: the routing table with its epochs, heavy keys, strategies, and the controller."""
