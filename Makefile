# make demo       a report from simulated evidence; installs only the core
# make test       the default tests, with warnings as errors; at most 5 minutes on two cores
# make test-full  what the default tests leave out: browsers, PostgreSQL, Spark, training, shell blocks of the pages
# make test-slow  coverage and long properties, resumable; PART=word takes the files whose path holds the word
# make test-llm   tests with a real language model on this machine; downloads 1.1 GB of weights once
# make lint       ruff: rules and layout
# make types      mypy, strictly
# make docs       the site, built strictly, in docs/_build/html
# make guarantees coverage of every promise over simulated worlds, in benchmarks/guarantees.json; at most 25 minutes, resumable
# make reproduce  tables and figures of the papers, ours beside theirs, in docs/reproduce; PAPER=alarm takes one paper; at most 30 minutes
# make bench      benchmarks, one JSON line each, and tests with a limit in seconds; BENCH=word takes the benchmarks whose name holds the word
#
# Needs python3 (3.11 or later) with venv. Everything else goes into .venv.

PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

# Larger data sets lie beside the checkout, where they exist; tests that need them skip otherwise.
export NORACLE_DATA ?= $(abspath $(wildcard ../shared/data))

# Tests start Python hundreds of times: compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-full test-slow test-llm lint types docs bench guarantees reproduce clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "noracle needs Python 3.11 or later; choose one with make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

.venv/installed-core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

.venv/installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[test]'
	@touch $@ .venv/installed-core

.venv/installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@ .venv/installed-core

demo: .venv/installed-core
	$(BIN)/noracle demo

test: .venv/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-full: .venv/installed-test
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "full and not slow and not llm and not timing" $(ARGS)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and not llm and not timing" --hypothesis-profile=full tests/properties

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/installed-test
	$(BIN)/mypy

docs: .venv/installed-docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# A part is one test file with slow tests or with properties (10,000 examples each). Its stamp under .slow/ is newer than
# the sources that it tested, so an interrupted run goes on where it stopped. SLOW_SOURCES= keeps stamps although the sources changed.
SLOW_SOURCES ?= $(shell find src/noracle -name '*.py')
SLOW_FILES := $(shell grep -rlE --include='test_*.py' 'mark\.slow|^@(hypothesis\.)?given' tests 2>/dev/null)
SLOW_PARTS := $(foreach f,$(sort $(SLOW_FILES)),$(if $(PART),$(if $(findstring $(PART),$(f)),$(f)),$(f)))
SLOW_STAMPS := $(patsubst tests/%.py,.slow/%.ok,$(SLOW_PARTS))

test-slow: $(SLOW_STAMPS)
	@test -n "$(SLOW_STAMPS)" || { echo "no slow test file has '$(PART)' in its path" >&2; exit 2; }
	@echo "passed: $(SLOW_PARTS)"

.slow/%.ok: tests/%.py $(SLOW_SOURCES) | .venv/installed-test
	@mkdir -p $(dir $@)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "" --hypothesis-profile=slow $< $(ARGS)
	@touch $@

test-llm: .venv/installed-test
	$(PIP) xllamacpp
	$(BIN)/python -m pytest -m llm tests/llm $(ARGS)

bench: .venv/installed-test
	@set -e; for file in benchmarks/bench_*$(BENCH)*.py; do echo "# $$file"; $(BIN)/python "$$file" $(ARGS); done
	@test -n "$(BENCH)" || $(BIN)/python -m pytest -m timing $(ARGS)

guarantees: .venv/installed-test
	$(BIN)/python benchmarks/guarantees.py --jobs $(WORKERS) $(ARGS)

reproduce: .venv/installed-test
	$(BIN)/python examples/papers/reproduce.py --out docs/reproduce $(if $(PAPER),--paper $(PAPER)) $(ARGS)

clean:
	rm -rf .slow docs/_build docs/reference/generated build dist .pytest_cache .mypy_cache .ruff_cache
