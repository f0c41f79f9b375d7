"""The unit log: a unit's state is a pure function of its previous rounds."""
