"""Full-history join of two streams with any predicate; loads stay balanced under skew (after D-JB, and extended)."""
