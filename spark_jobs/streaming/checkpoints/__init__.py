"""States of units as datasets: saved, brought back, gone back to."""
