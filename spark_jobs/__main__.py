"""`python -m springline.spark_jobs`: see `--help`."""

from springline.spark_jobs.cli import main

if __name__ == "__main__":
    main()
