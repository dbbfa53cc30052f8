# Everything a contributor runs. Tools live in .venv, made on first use.
# Choose another interpreter with: make test PYTHON=/path/to/python3

VENV   ?= .venv
BIN    := $(VENV)/bin
IS_NEW := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
            $$p $(IS_NEW) 2>/dev/null && { echo $$p; break; }; done)
SAMPLE := sample_traces/single_gpu.json.gz

.DEFAULT_GOAL := help
.PHONY: help setup check test lint format docs example

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Make .venv with TraceLens (editable) and the development tools

$(VENV)/.ready: pyproject.toml
	@$(or $(PYTHON),false) $(IS_NEW) 2>/dev/null || { \
	  echo "error: TraceLens needs Python 3.11 or newer; found $$($(or $(PYTHON),python3) --version 2>&1)"; \
	  echo "hint: name one with: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11"; exit 1; } >&2
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "hint: on Debian and Ubuntu: apt-get install python3-venv"; exit 1; } >&2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

check: lint test ## All that CI asks: linters and tests

test: setup ## Run the tests (choose some with: make test ARGS="-k sweep")
	$(BIN)/python -m pytest -n auto --dist loadscope $(ARGS)

lint: setup ## Formatting, ruff, mypy, who imports whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup ## Rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Make the pages that follow from the code
	$(BIN)/python docs/make.py

benchnsight: setup ## Time the reading of Nsight exports (size: make benchnsight ARGS="--kernels N")
	$(BIN)/python benchmarks/nsight.py $(ARGS)

example: setup ## Attribute the sample trace and print where its time went
	$(BIN)/tracelens attribute $(SAMPLE)
