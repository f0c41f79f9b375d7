"""Roots that are sent again: by the timeout, or by a person; and those that failed."""
