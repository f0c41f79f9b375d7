"""`python -m springline`: the same as the command `springline`."""

from springline.cli import main

if __name__ == "__main__":
    main()
