"""Datasets: lineages, workflows over lines, faults in stores and in states."""
