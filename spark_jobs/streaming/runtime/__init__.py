"""The unit log: a unit's state is a pure function of the rounds that came before."""
