"""The commands for operations, landing files and the class archive."""
