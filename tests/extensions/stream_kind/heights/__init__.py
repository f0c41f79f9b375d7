"""A kind of stream job: it reports each number that is greater than all numbers before it."""
