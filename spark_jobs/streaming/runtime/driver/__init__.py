"""What runs in the driver: plans rounds, drains stages, recovers states, takes savepoints."""
