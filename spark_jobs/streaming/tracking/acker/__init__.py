"""The acker: the tables of tracking records, and the stage that keeps them."""
