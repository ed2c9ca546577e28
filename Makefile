# Each target sets itself up in .venv and works from a clean clone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-all check format bench clean

help:
	@echo "make demo      from nothing to a result on a drawn menu (sets up $(VENV))"
	@echo "make test      the fast tests"
	@echo "make test-all  all tests, with the large counts"
	@echo "make check     format, lint, types and layers"
	@echo "make format    format and fix what can be fixed"
	@echo "make bench     what the label graph costs, as a table"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { apt-get update && apt-get install -y python3-venv && $(PYTHON) -m venv --clear $(VENV); }

$(VENV)/.all: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.all

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	@touch $@

demo: $(VENV)/.all
	$(BIN)/finegraph demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(VENV)/.dev
	FINEGRAPH_MALFORMED=5000 $(BIN)/python -m pytest -n 2

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/head.py

clean:
	rm -rf $(VENV) build dist
