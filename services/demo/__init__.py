"""`make demo`: three days of the workflow on real servers, with persistence, and the final state of every dataset."""
