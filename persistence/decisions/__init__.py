"""Decisions about datasets: pure functions from plain values to plans."""
