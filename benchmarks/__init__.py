"""Every figure in the docs, its peers measured in the same run, by one command each: `python -m benchmarks NAME`."""
