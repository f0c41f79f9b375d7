"""What runs in the driver: plans rounds, waits for drained stages, recovers states, makes savepoints."""
