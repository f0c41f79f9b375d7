"""Full-history join of two streams with any predicate, level under skew (design of D-JB and of our own)."""
