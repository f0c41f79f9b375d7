"""What is decided about datasets: pure functions from plain values to plans."""
