"""What datasets are, how they are derived from each other, and what they cost: plain values."""
