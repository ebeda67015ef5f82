# One word per action. Each target does its own set-up in .venv; only Python >= 3.11 and PyPI are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SHARED := $(abspath ../shared/data)

# Real data for tests and experiments, where a checkout has them beside it; users set this themselves.
ifneq ($(wildcard $(SHARED)/README.md),)
export RANKWRIGHT_DATA ?= $(SHARED)
endif

.PHONY: help demo test check bench experiments docs clean
help:
	@echo "make demo         train on generated data and print the compare tables"
	@echo "make test         the whole test suite (under ten minutes on two cores)"
	@echo "make check        ruff, mypy --strict, import-linter"
	@echo "make bench        speed beside peers, as ratios in one run"
	@echo "make experiments  the papers' tables and figures"
	@echo "make docs         the documentation site"

$(VENV)/.made-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing rankwright[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

$(VENV)/.made: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing rankwright into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

demo: $(VENV)/.made-report
	@$(BIN)/rankwright demo

test: $(VENV)/.made-test
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

check: $(VENV)/.made-test $(VENV)/.made-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.made-bench
	$(BIN)/python -m benchmarks $(NAMES)

experiments: $(VENV)/.made-test
	$(BIN)/python -m experiments $(NAMES)

docs: $(VENV)/.made-docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
