"""The commands about datasets: those that look, and those that act."""
