"""The workflow over the flights of 2013: load, five transforms, a quality gate, four analyses."""
