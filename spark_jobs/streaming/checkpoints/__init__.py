"""States of units as datasets: checkpoints, recovery and savepoints."""
