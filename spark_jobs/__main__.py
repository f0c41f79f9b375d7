"""`python -m spark_jobs`: see `--help`."""

from spark_jobs.cli import main

if __name__ == "__main__":
    main()
