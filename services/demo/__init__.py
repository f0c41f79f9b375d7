"""`make demo`: three days of the workflow on real servers, persisted, and what became of every dataset."""
