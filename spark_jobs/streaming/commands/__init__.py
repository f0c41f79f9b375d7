"""The commands of streams, of tracking, of joins and of back-pressure."""
