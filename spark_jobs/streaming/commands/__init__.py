"""The commands of streams, tracking, joins and back-pressure."""
