"""The commands for datasets: queries and changes."""
