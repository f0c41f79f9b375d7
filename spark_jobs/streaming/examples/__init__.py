"""Sample streams: the flights of 2013, and seeded net-flow rows, lines of text, orders and items."""
