"""The commands of streams."""
