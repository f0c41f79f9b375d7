"""What runs in the tasks: the rounds of a stage's units, and their retries."""
