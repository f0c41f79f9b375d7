"""Formatting of values for people: units, lists, redacted secrets, escaped control characters."""
