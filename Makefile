# One word per action. Each target does its own set-up in .venv; only Python >= 3.11 and PyPI are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -q

.PHONY: help demo test test-nojit test-small test-oldest coverage check bench fuzz experiments docs notebooks pictures constraints clean
help:
	@echo "make demo         train on generated data, print comparison tables, write a report page"
	@echo "make test         the whole test suite"
	@echo "make check        ruff, mypy --strict, import-linter"
	@echo "make test-nojit   small cases with numba's JIT switched off"
	@echo "make test-small   serve every kind of model with a plain pip install"
	@echo "make test-oldest  the test suite with the oldest supported dependencies"
	@echo "make coverage     branch coverage of the test suite"
	@echo "make fuzz         damaged model files, every reader, uploads, failing disks, for five minutes"
	@echo "make bench        speed compared with other libraries, as ratios within one run"
	@echo "make experiments  the papers' tables and figures"
	@echo "make docs         the documentation, with warnings as errors"
	@echo "make notebooks    run the examples of the documentation as notebooks"
	@echo "make pictures     the pictures of the README, from the present pages"
	@echo "make constraints  pin the versions that CI installs to those in .venv"

$(VENV)/.made-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing rankwright[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

demo: $(VENV)/.made-report
	@$(BIN)/rankwright demo

test: $(VENV)/.made-test
	$(PYTEST) $(ARGS)

test-nojit: $(VENV)/.made-test
	NUMBA_DISABLE_JIT=1 $(PYTEST) tests/contract/test_reference_scores.py

test-small:
	@test -x .venv-small/bin/python || $(PYTHON) -m venv .venv-small
	.venv-small/bin/python -m pip install --quiet .
	.venv-small/bin/python tests/persist/small_install.py

test-oldest:
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python .ci/oldest.py > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/constraints.txt --editable ".[test]"
	.venv-oldest/bin/python -m pytest -n 2 --dist worksteal -q $(ARGS)

coverage:
	@$(MAKE) --no-print-directory test ARGS="--cov --cov-report=term"

check: $(VENV)/.made-test $(VENV)/.made-check
	! git grep -nE '^(<<<<<<< |>>>>>>> )'  # what a merge left behind
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: $(VENV)/.made-test
	$(BIN)/python -m tests.fuzz --minutes 5

bench: $(VENV)/.made-bench
	$(BIN)/python -m benchmarks $(NAMES)

experiments: $(VENV)/.made-test
	$(BIN)/python -m experiments $(NAMES)

docs: $(VENV)/.made-docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

notebooks: docs/gallery
	$(BIN)/python -m nbconvert --execute --to html --output-dir docs/_build/notebooks --log-level ERROR docs/gallery/*.ipynb
	@echo "docs/_build/notebooks"

docs/gallery:
	$(MAKE) docs

pictures: $(VENV)/.made-test
	$(BIN)/python docs/pictures.py $(ARGS)

constraints: $(VENV)/.made-test $(VENV)/.made-check $(VENV)/.made-docs
	$(BIN)/python -m pip freeze --exclude-editable > .ci/constraints.txt

clean:
	rm -rf $(VENV) .venv-* docs/_build docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
