"""What runs in the tasks: the units of a stage, round by round, and what is tried again."""
