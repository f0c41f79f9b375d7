"""`python -m persistence`: see `persistence.cli`."""

from persistence.cli import main

main()
