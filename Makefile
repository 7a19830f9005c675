SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
DEMO := .cache/demo
SIDE_BY_SIDE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
FAST := not spark and not kafka and not postgres and not registry and not rest and not server and not thorough and not full
# Those of test-all are fetched when it comes to them.
SERVERS := kafka rest rest-s3 connect converter debezium postgres registry hive nessie
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input install --quiet --use-pep517

export CALVE_JARS ?= $(CURDIR)/.cache/jars
export PYTHON

.PHONY: help
help: ## Explain the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.PHONY: demo
demo: ready ## Set up, then stream generated orders into a local Iceberg table and show them
	@rm -rf $(DEMO)
	@$(BIN)/calve init $(DEMO)
	@cd $(DEMO) && $(BIN)/calve run
	@cd $(DEMO) && $(BIN)/calve read orders --limit 10
	@cd $(DEMO) && $(BIN)/calve snapshots orders
	@echo "The table is in $(DEMO)/warehouse. Query it: cd $(DEMO) && $(BIN)/calve read orders --limit 100"
	@echo "or with PyIceberg: SqlCatalog('calve', uri='sqlite:///$(CURDIR)/$(DEMO)/warehouse/catalog.db').load_table('shop.orders')"

.PHONY: test
test: setup lint ## Set up, then run every test but the full counts, with coverage (fails below 90 %)
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	$(BIN)/coverage run -m pytest -m "not full" $(SIDE_BY_SIDE) --durations=12
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

.PHONY: test-fast
test-fast: .venv/.test ## The tests that need neither Spark nor a server, in seconds
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m "$(FAST)" --ignore tests/faults

.PHONY: test-all
test-all: setup .cache/versity.stamp lint ## Every test, full counts included; one that is skipped fails
	CALVE_NO_SKIPS=1 $(BIN)/python -m pytest $(SIDE_BY_SIDE) --durations=12

.PHONY: faults
faults: setup ## The fault suites with full counts, and a table of what was done and found; half an hour and more
	CALVE_FAULT_COUNTS=full $(BIN)/python -m pytest tests/faults -k "not mutant" --numprocesses 2 --dist load --durations=8

.PHONY: mutants
mutants: setup ## Switch each protection off in turn; every time an invariant must break
	$(BIN)/python -m pytest tests/faults -k mutant --numprocesses 2 --dist worksteal

.PHONY: soak
soak: setup ## Random faults with a new seed each round, for MINUTES=10 or as given
	$(BIN)/python -m tests.faults.soak $(MINUTES) $(SIDE_BY_SIDE)
MINUTES ?= 10

.PHONY: lint
lint: .venv/.test ## Style (ruff), types (mypy) and layers (import-linter)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo "Not formatted: run make format"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .cache/layers.log || { cat .cache/layers.log; exit 1; }

.PHONY: format
format: .venv/.test ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: setup ## Calve beside hand-written Spark and plain Parquet, ratios in one run; five minutes
	$(BIN)/python -m bench

.PHONY: bench-full
bench-full: setup ## The same with full counts
	$(BIN)/python -m bench --full

.PHONY: bench-peers
bench-peers: setup ## The peers beside Calve: WORKLOADS="W1 W2" PEERS="calve flink" ROUNDS=3 SCALE=1 PUBLISH=1; hours for all
	$(BIN)/python -m bench.peers --workloads "$(WORKLOADS)" --peers "$(PEERS)" --rounds $(ROUNDS) --scale $(SCALE) $(if $(PUBLISH),--publish)
WORKLOADS ?= W1 W2 W3
PEERS ?= all
ROUNDS ?= 3
SCALE ?= 1

.PHONY: docs
docs: .venv/.test ## Write the reference pages of docs/ from the models
	$(BIN)/python scripts/docs.py

.PHONY: setup
setup: .venv/.test jdk .cache/jars.stamp .cache/classes.stamp .cache/servers.stamp .cache/azurite.stamp ## Python packages, Java and jars for everything above; a second time does nothing

.PHONY: lock
lock: .venv/bin/python ## Write the requirements locks anew
	@$(PIP) --target .cache/uv uv
	.cache/uv/bin/uv pip compile $(UV) --all-extras pyproject.toml -o requirements-test.lock
	.cache/uv/bin/uv pip compile $(UV) --extra build -c requirements-test.lock pyproject.toml -o requirements.lock
UV := --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-header --upgrade

.PHONY: clean
clean: ## Remove the environment, the jars and everything else that was made
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist

.PHONY: ready java jdk
ready: .venv/.runtime java .cache/embedded.stamp

java: .venv/.runtime
	@scripts/setup java

jdk: .venv/.runtime
	@scripts/setup jdk

.venv/bin/python:
	@scripts/setup venv

.venv/.runtime: requirements.lock pyproject.toml | .venv/bin/python
	@echo "Installing the Python packages of requirements.lock into .venv"
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@mkdir -p .cache && touch $@

.venv/.test: requirements-test.lock .venv/.runtime
	@echo "Installing the Python packages of requirements-test.lock into .venv"
	@$(PIP) --require-hashes -r requirements-test.lock
	@touch $@

.cache/jars.stamp: src/calve/runtime/jars.lock | java
	@echo "Fetching the jars of src/calve/runtime/jars.lock"
	@$(BIN)/python -m calve.runtime.jars
	@touch $@

.cache/embedded.stamp: src/calve/runtime/jars.lock | java
	@echo "Fetching the jars of the embedded catalog"
	@$(BIN)/python -m calve.runtime.jars core sqlite
	@touch $@

.cache/classes.stamp: .cache/jars.stamp
	@$(BIN)/python -m calve.runtime.warm
	@touch $@

.cache/servers.stamp: tests/servers/jars.lock | jdk .cache/jars.stamp
	@echo "Fetching the jars of tests/servers/jars.lock"
	@$(BIN)/python -m calve.runtime.jars --lock tests/servers/jars.lock $(SERVERS)
	@touch $@

.cache/azurite.stamp: tests/servers/azure/package-lock.json
	@echo "Fetching Azurite"
	@scripts/setup azurite
	@touch $@

.cache/versity.stamp: tests/servers/go/go.sum | .venv/bin/python
	@echo "Building Versity's S3 gateway"
	@scripts/setup versity
	@touch $@
