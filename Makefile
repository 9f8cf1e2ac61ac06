# Everything runs in .venv, which the first target you call creates. `make help` lists the targets.
PYTHON ?= python3
RUN := .venv/bin/python
INSTALLED := .venv/.installed
PARALLEL := --numprocesses auto --dist worksteal --maxprocesses 4
JUPYTER := .venv/.jupyter
OLDEST ?= .venv-oldest

.DEFAULT_GOAL := help
.PHONY: help install lint types test test-all campaign test-oldest fit notebooks bench docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install: $(INSTALLED)  ## create .venv with everything pinned in constraints.txt

$(INSTALLED): setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ckcnn needs Python 3.11 or newer, found " + sys.version.split()[0] + "; try: make PYTHON=python3.11 test")'
	@test -x $(RUN) || $(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

lint: install  ## check style with ruff
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: install  ## check types with mypy
	$(RUN) -m mypy

test: lint types  ## style, types and the quick tests
	$(RUN) -m pytest $(PARALLEL)

test-all: lint types  ## the same and the long trainings
	$(RUN) -m pytest $(PARALLEL) -m ''

campaign: install  ## 2,000 bad inputs and 100 kills, about 30 minutes; prints what was tried and what failed
	$(RUN) -m tests.campaign

test-oldest:  ## the quick tests with the lowest versions that setup.cfg allows
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tests/oldest.py > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt --editable '.[dev]'
	$(OLDEST)/bin/python -m pytest $(PARALLEL) $(TESTS)

fit: install  ## train and test the smallest real example
	$(RUN) -m ckcnn fit --config digits.yaml
	$(RUN) -m ckcnn test --config digits.yaml

notebooks: install $(JUPYTER)  ## open the notebooks in JupyterLab
	$(RUN) -m jupyterlab notebooks $(LAB)

$(JUPYTER): $(INSTALLED)
	$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[notebooks]'
	@touch $@

bench: install  ## speed and memory of a training step and of streams, about 20 minutes
	$(RUN) -m benchmarks.step
	$(RUN) -m benchmarks.stamps
	$(RUN) -m benchmarks.streaming
	$(RUN) -m benchmarks.separable

docs: install  ## build the documentation, docs/_build/html/index.html
	$(RUN) -m sphinx -W --keep-going -n -q docs docs/_build/html

clean:  ## remove the environments and all caches
	rm -rf .venv $(OLDEST) docs/_build .mypy_cache .ruff_cache .pytest_cache *.egg-info src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
