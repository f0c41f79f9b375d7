"""Real servers that a test may use, and harm."""
