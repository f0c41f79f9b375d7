# The tasks of this checkout. `make` without a target lists them.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
# The first of these that runs and is at least 3.11; `make setup PYTHON=…` chooses another.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
WITH_JAVA = JAVA_HOME="$$($(VENV)/bin/springline server java)"
# The jars that the tests need; benchmarks fetch theirs when they run.
JARS := kafka hdfs alluxio s3 spark spark-s3 alluxio-hdfs
# What mypy knows of each file by its content, for all checkouts of this user: 2 s instead of 76 s of CPU in a new one.
TYPES := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/springline/mypy
PYTEST = $(WITH_JAVA) $(PY) -m pytest
QUICK := tests/property tests/unit tests/conformance
# The tests of a file run on one worker, since some share slow fixtures; those of folders that share servers too
# (tests/conftest.py). Files keep their order: without --no-loadscope-reorder, files with few tests, which are often the
# slowest, would start last.
BY_FILE := --dist loadfile --no-loadscope-reorder
PARALLEL := -n auto --maxprocesses 4 $(BY_FILE)
IN_PAIRS := -n 2 $(BY_FILE)
# The failed tests of a suite on real servers run once more, alone.
SUITE = $(WITH_JAVA) .ci/suite

.PHONY: help setup fetch requirements demo demo-fault stop check format test test-unit test-spark test-airflow test-servers test-e2e test-nightly flaky fuzz bench docs screenshots

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with all dependencies
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

fetch: $(READY)  ## download the servers' jars and Chromium now; otherwise at first use
	@$(VENV)/bin/springline server jars $(JARS)
	@$(VENV)/bin/springline server chromium >/dev/null

requirements: $(READY)  ## compile requirements.in to requirements.txt
	$(VENV)/bin/uv pip compile --universal --python-version 3.11 --no-header requirements.in -o requirements.txt

demo: $(READY)  ## run three days of the workflow and three streams, and show the results; PROFILE=cluster: on the real servers
	@$(if $(PROFILE),SPRINGLINE_PROFILE=$(PROFILE)) $(VENV)/bin/springline demo run

demo-fault: $(READY)  ## after make demo: wipe the cache, kill a stream, and show how both recover; PROFILE=cluster: on the cluster
	@$(if $(PROFILE),SPRINGLINE_PROFILE=$(PROFILE)) $(VENV)/bin/springline demo fault

stop: $(READY)  ## stop every stream and server started from this checkout, of every profile
	@$(VENV)/bin/springline stop

check: $(READY)  ## check formatting, lint, types and import rules
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy --cache-dir $(TYPES)
	@PYTHONPATH=src:. $(VENV)/bin/lint-imports --no-cache

format: $(READY)  ## format the code and apply automatic lint fixes
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

test: $(READY)  ## run the tests that need no external servers: unit, property, conformance, spark, airflow
	@code=0; \
	$(PYTEST) $(PARALLEL) $(QUICK) || code=1; \
	$(PYTEST) $(IN_PAIRS) tests/spark tests/airflow || code=1; \
	exit $$code

test-unit: $(READY)  ## run the fast tests: unit, property, conformance
	@$(PYTEST) $(PARALLEL) $(QUICK)

test-spark: $(READY)  ## run the tests that start Spark
	@$(PYTEST) tests/spark

test-airflow: $(READY)  ## run the tests that start Airflow
	@$(PYTEST) tests/airflow

test-servers: $(READY)  ## run the tests on real servers, and those that kill processes and compare with a fault-free run
	@$(VENV)/bin/springline server jars $(JARS)
	@$(SUITE) servers $(IN_PAIRS) tests/faults tests/integration

test-e2e: $(READY)  ## test Airflow and its pages in Chromium
	@$(VENV)/bin/springline server chromium >/dev/null
	@$(VENV)/bin/springline server jars kafka
	@$(SUITE) e2e $(IN_PAIRS) tests/e2e

# A recipe starts whatever its page does, and gets the machine for itself. Quarters take about as long as each other by
# the seconds that the last whole run has stored; of recipes, each test is for itself.
SECONDS := --durations-path tests/nightly_durations.json
NIGHTLY = -m nightly $(SECONDS) $(if $(QUARTER),--splits 4 --group $(QUARTER))
test-nightly: $(READY)  ## run the tests marked nightly, then properties with random examples; QUARTER=1 to 4: a part of the tests
	@$(VENV)/bin/springline server chromium >/dev/null
	@$(VENV)/bin/springline server jars $(JARS)
	@code=0; \
	$(SUITE) recipes $(NIGHTLY) --splitting-algorithm least_duration tests/recipes || code=1; \
	$(SUITE) nightly $(IN_PAIRS) $(NIGHTLY) $(if $(QUARTER),,--store-durations) tests/faults tests/integration tests/e2e || code=1; \
	$(if $(QUARTER),,$(PYTEST) $(PARALLEL) --hypothesis-profile random tests/property || code=1;) exit $$code

# What waits for other processes or threads.
TIMED := $(addprefix tests/,unit/streaming/runtime unit/streaming/application unit/persistence/engine unit/services \
	faults integration)
flaky: $(READY)  ## run the tests that wait for time twice, beside two busy processes: which fail there are flaky
	@$(VENV)/bin/springline server jars $(JARS)
	@trap 'kill $$(jobs -p)' EXIT; \
	for load in 1 2; do $(PY) -c 'while True: pass' & done; \
	code=0; \
	for run in 1 2; do $(PYTEST) $(IN_PAIRS) -o cache_dir=var/pytest/flaky $(TIMED) || code=1; done; \
	exit $$code

fuzz: $(READY)  ## test random messages and SQL expressions for minutes; EXAMPLES=100000: for longer
	@FUZZ_EXAMPLES=$(or $(EXAMPLES),20000) $(PYTEST) -n auto --maxprocesses 4 -m fuzz --timeout 0 --hypothesis-profile fuzz $(QUICK)

bench: $(READY)  ## run all benchmarks at the quick size and report missed goals; or one: make bench NAME=persistence SIZE=full
	@$(WITH_JAVA) $(PY) -m benchmarks $(or $(NAME),all) --size $(or $(SIZE),quick)

docs: $(READY)  ## regenerate parts of the documents: settings, commands, routes, figures, output of the examples
	@$(PY) -m docs

screenshots: $(READY)  ## regenerate the screenshots of Airflow's pages in the documents
	@$(VENV)/bin/springline server chromium >/dev/null
	@$(PYTEST) -m nightly tests/e2e/airflow/test_screenshots.py
	@$(PY) -m docs.screenshots
