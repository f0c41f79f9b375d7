"""Streams to try things on: seeded net-flow rows, and the flights of 2013."""
