"""Which units tuples go to: the routing table with its epochs, heavy keys, strategies, and the controller."""
