# Everything a person can do here. `make` alone lists it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# The first of these that runs and is new enough; `make setup PYTHON=…` chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
WITH_JAVA = JAVA_HOME="$$($(VENV)/bin/springline server java)"
# What the tests need; benchmarks fetch theirs when they run.
JARS := kafka hdfs alluxio spark alluxio-hdfs
PYTEST = $(WITH_JAVA) $(PY) -m pytest
QUICK := tests/property tests/unit tests/conformance
# A file's tests stay together, since some share what takes long to make; files in their order, since the longest hold
# the fewest tests.
BY_FILE := --dist loadfile --no-loadscope-reorder
PARALLEL := -n auto --maxprocesses 4 $(BY_FILE)
IN_PAIRS := -n 2 $(BY_FILE)

.PHONY: help setup fetch requirements demo demo-fault stop check format test test-unit test-spark test-airflow test-integration test-servers test-e2e faults fuzz bench docs pictures

help:  ## list what can be done here
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with everything that is needed
	@echo "$(VENV) is ready"

$(READY): requirements.txt pyproject.toml
	@if [ -z "$(PYTHON)" ]; then \
		echo "No Python of 3.11 or later found ($$(python3 --version 2>&1 || true)). Install one, or: make setup PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit("Springline needs Python 3.11 or later; $(PYTHON) is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@$(PY) -c 'import pip' 2>/dev/null || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)." >&2; exit 1; }; }
	@echo "Installing into $(VENV) …"
	@$(PY) -m pip install --quiet --disable-pip-version-check "$$(grep '^uv==' requirements.txt | cut -d' ' -f1)"
	@$(VENV)/bin/uv pip sync --quiet --compile-bytecode --python $(PY) requirements.txt
	@$(VENV)/bin/uv pip install --quiet --no-deps --no-build-isolation --python $(PY) --editable .
	@echo "Archiving Spark's classes, so that it starts in half the time …"; $(VENV)/bin/springline server class-archive >/dev/null || true
	@touch $@

fetch: $(READY)  ## fetch the servers' jars and Chromium now; else that is done where they are first needed
	@$(VENV)/bin/springline server jars $(JARS)
	@$(VENV)/bin/springline server chromium >/dev/null

requirements: $(READY)  ## compile requirements.in to requirements.txt
	$(VENV)/bin/uv pip compile --universal --python-version 3.11 --no-header requirements.in -o requirements.txt

demo: $(READY)  ## run three days of the workflow beside three streams, and show what became of it; PROFILE=cluster: on the real servers
	@$(if $(PROFILE),SPRINGLINE_PROFILE=$(PROFILE)) $(VENV)/bin/springline demo run

demo-fault: $(READY)  ## after make demo: wipe the cache, kill a stream, and show how both heal; PROFILE=cluster: there
	@$(if $(PROFILE),SPRINGLINE_PROFILE=$(PROFILE)) $(VENV)/bin/springline demo fault

stop: $(READY)  ## end every stream and every server that was started here, of every profile
	@$(VENV)/bin/springline stop

check: $(READY)  ## format, lint, types, imports
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@PYTHONPATH=src:. $(VENV)/bin/lint-imports --no-cache

format: $(READY)  ## format the code and mend what can be mended
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

test: $(READY)  ## all tests that need no other machine: unit, property, conformance, spark, airflow
	@code=0; \
	$(PYTEST) $(PARALLEL) $(QUICK) || code=1; \
	$(PYTEST) tests/spark tests/airflow || code=1; \
	exit $$code

test-unit: $(READY)  ## the quick ones: unit, property, conformance
	@$(PYTEST) $(PARALLEL) $(QUICK)

test-spark: $(READY)  ## the ones that start Spark
	@$(PYTEST) tests/spark

test-airflow: $(READY)  ## the ones that start Airflow
	@$(PYTEST) tests/airflow

test-integration: $(READY)  ## the ones on real servers: PostgreSQL, Kafka, ZooKeeper, HDFS, Alluxio, a Spark cluster
	@$(VENV)/bin/springline server jars $(JARS)
	@$(PYTEST) $(IN_PAIRS) tests/integration

test-e2e: $(READY)  ## what the README starts, then Airflow's pages with Chromium; pictures of them go to var/e2e
	@$(VENV)/bin/springline server chromium >/dev/null
	@$(VENV)/bin/springline server jars kafka
	@$(PYTEST) tests/recipes tests/e2e

test-servers: $(READY)  ## test-integration and faults at once, so that nobody waits for the longest test of each
	@$(VENV)/bin/springline server jars $(JARS)
	@$(PYTEST) $(IN_PAIRS) tests/faults tests/integration

faults: $(READY)  ## the ones that kill processes, delete caches and fill disks, then compare with a run without faults
	@$(VENV)/bin/springline server jars $(JARS)
	@$(PYTEST) $(IN_PAIRS) tests/faults

fuzz: $(READY)  ## draw messages and expressions at random for minutes; EXAMPLES=100000: for longer
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(PYTEST) -n auto --maxprocesses 4 -m fuzz --timeout 0 --hypothesis-profile fuzz $(QUICK)

bench: $(READY)  ## measure all, at the quick size, and tell which goals are missed; or one: make bench NAME=persistence SIZE=full
	@$(WITH_JAVA) $(PY) -m benchmarks $(or $(NAME),all) --size $(or $(SIZE),quick)

docs: $(READY)  ## write the generated parts of the documents: settings, commands, routes, figures, what the examples print
	@$(PY) -m docs

pictures: $(READY)  ## draw the documents' pictures of Airflow's pages anew
	@$(VENV)/bin/springline server chromium >/dev/null
	@$(PYTEST) tests/e2e/test_pictures.py
	@$(PY) -m docs.pictures
