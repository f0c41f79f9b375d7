"""Retries of roots, by timeout or by a user, and failed roots."""
