"""The lineage as a picture: what is drawn, what is folded together, and where it stands; values in, values out."""
