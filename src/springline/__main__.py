"""`python -m springline`: as the command `springline`."""

from springline.cli import main

if __name__ == "__main__":
    main()
