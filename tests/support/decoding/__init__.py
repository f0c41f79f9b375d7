"""Messages, SQL and windows in this process: drawn at random, and run without Kafka."""
