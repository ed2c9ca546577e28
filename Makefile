# Each target sets itself up in .venv and works from a clean clone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# Bytecode is kept even where the environment says otherwise: without it, every process that tests start compiles the
# package anew, and pytest rewrites the assertions of all tests.
unexport PYTHONDONTWRITEBYTECODE

# Three processes for two cores, as servers, browsers and databases are waited for; each with whole files where it can
# be: files share browsers, servers and trained models.
SPREAD := -n 3 --dist worksteal
# One thread each: two that wait for each other on a busy core take longer than one. `make test-cpu` says its own.
test test-fast test-all test-oldest: export OMP_NUM_THREADS := 1
test test-fast test-all test-oldest: export OPENBLAS_NUM_THREADS := 1
FAST := not slow and not deep and not browser and not database and not drill

.PHONY: help demo test test-fast test-oldest wheel-test test-all test-cpu check format docs screenshots dist bench clean

help:
	@echo "make demo      from nothing to a result on a drawn menu (sets up $(VENV))"
	@echo "make test      all tests but those with large counts"
	@echo "make test-fast for the edit loop: no browser, no database server, no process that is started and killed"
	@echo "make test-all  all tests, with the large counts"
	@echo "make test-cpu  the numerical tests as other processors compute: CPUS, \"avx2:2\" is one with two threads"
	@echo "make test-oldest  the fast tests with the oldest versions of dependencies that are allowed"
	@echo "make wheel-test  a wheel, built, installed in a new environment and tried"
	@echo "make check     format, lint, types and layers"
	@echo "make format    format and fix what can be fixed"
	@echo "make docs      the site, in build/docs"
	@echo "make screenshots  the pictures of the pages in docs/_static, taken from the pages; needs Chromium"
	@echo "make dist      an sdist and a wheel in dist, checked"
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

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

# Every warning is an error: a broken link, a page that nothing leads to, a name that does not exist. Then every link
# of every built page is followed, and nothing may be loaded from elsewhere.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q docs build/docs
	$(BIN)/python docs/site_check.py build/docs
	@echo "build/docs/index.html"

# Looks at the pages as people do. Not part of CI: pixels depend on fonts. Look at each picture before you commit it.
screenshots: $(VENV)/.docs
	$(BIN)/python docs/drawings.py
	$(BIN)/python docs/screenshots.py

demo: $(VENV)/.all
	$(BIN)/finegraph demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(SPREAD) -m "not slow"

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest $(SPREAD) -m "$(FAST)"

# The oldest versions of dependencies that pyproject.toml allows, in an environment of its own. torch is an exception:
# its oldest builds for the CPU alone are not on PyPI, and those with CUDA are gigabytes. OLDEST= takes 2.6 all the same.
# Warnings of old packages about newer ones are not ours, so none is an error here.
OLDEST ?= torch==2.13.0

test-oldest:
	@mkdir -p build
	$(PYTHON) -m venv --clear build/oldest
	$(PYTHON) tests/oldest_versions.py $(OLDEST) > build/oldest.txt
	build/oldest/bin/python -m pip install --quiet --editable ".[dev]" --constraint build/oldest.txt
	build/oldest/bin/python -m pytest $(SPREAD) -W default -m "$(FAST)"

wheel-test: $(BIN)/python
	rm -rf build/wheel dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet dist/finegraph-*.whl
	build/wheel/bin/python tests/wheel_smoke.py

dist: $(BIN)/python
	rm -rf dist build/dist
	$(PYTHON) -m venv build/dist
	build/dist/bin/python -m pip install --quiet build twine
	build/dist/bin/python -m build --outdir dist .
	build/dist/bin/python -m twine check --strict dist/*

test-all: $(VENV)/.dev
	FINEGRAPH_MALFORMED=5000 FINEGRAPH_EXAMPLES=300 $(BIN)/python -m pytest $(SPREAD)

# No test may depend on the processor. These compare fits, posteriors, gradients and exports; each pair is what torch
# may use of the processor and how many threads. The other libraries of matrices are held to the same.
CPUS ?= default:1 default:2 avx2:1 avx2:2 native:1 native:2
NUMERICAL ?= tests/reference tests/inference tests/model tests/nn/test_heads.py tests/nn/test_network.py \
  tests/evaluation tests/training/test_step.py tests/training/test_optimizer.py tests/workflows/test_export_model.py \
  tests/workflows/test_study_heads.py

test-cpu: $(VENV)/.dev
	@set -e; for pair in $(CPUS); do \
	  case $${pair%:*} in \
	    default) held="ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41" ;; \
	    avx2) held="ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2" ;; \
	    native) held= ;; \
	    *) echo "CPUS: expected default, avx2 or native, a colon and threads, got $$pair" >&2; exit 2 ;; \
	  esac; \
	  echo "== $$pair"; \
	  env $$held FINEGRAPH_TEST_THREADS=$${pair#*:} OMP_WAIT_POLICY=PASSIVE \
	    $(BIN)/python -m pytest $(SPREAD) -m "not slow" $(NUMERICAL); \
	done

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
