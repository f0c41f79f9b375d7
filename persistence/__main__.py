"""`python -m springline.persistence`: see `springline.persistence.cli`."""

from springline.persistence.cli import main

main()
