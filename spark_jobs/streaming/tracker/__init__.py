"""The tracker alone: tuple tracking for a topology that is not ours, with a client that its stages use."""
