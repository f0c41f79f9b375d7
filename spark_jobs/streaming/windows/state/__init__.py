"""The reducer's state: slices, watermarks, and window triggers."""
