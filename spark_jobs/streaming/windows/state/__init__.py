"""The reducer's state: slices, watermarks, and when windows fire."""
