"""Checks of the installation and the configuration, with remedies: `springline doctor` and `config check`."""
