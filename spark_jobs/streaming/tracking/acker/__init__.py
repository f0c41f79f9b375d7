"""The acker: the tables of tracking records, and the stage that maintains them."""
