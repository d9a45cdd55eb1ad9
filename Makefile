# Each target sets up what it needs; nothing has to be installed by hand but Python 3.11+, make and git.
PYTHON ?= python3
VENV ?= .venv
PY = $(VENV)/bin/python
READY = $(VENV)/.ready
INSTALLED = $(VENV)/.installed
PIP = $(PY) -m pip install --quiet --disable-pip-version-check
# Tests run side by side, two processes for each core (8 at most), since many wait; WORKERS=0 is one after the other.
WORKERS ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
PYTEST = $(PY) -m pytest -n $(WORKERS) --maxprocesses=8 --dist=worksteal
CORE = yiemagent/*.py,yiemagent/agent/*,yiemagent/loop/*,yiemagent/tools/*,yiemagent/context/*
Q ?= Which wines have notes of oak and vanilla?

# Where this is set, every run compiles every test, and every child process of a test the package.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo chat test lint types imports unit servers coverage stress bench conformance format clean

$(INSTALLED): pyproject.toml
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(PIP) --editable '.[test,lint]'
	touch $(READY)

demo: $(INSTALLED)
	$(PY) -m yiemagent demo "$(Q)"

chat: $(INSTALLED)
	$(PY) -m yiemagent chat

test: lint types imports coverage

lint: $(READY)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(READY)
	$(PY) -m mypy

imports: $(READY)
	$(VENV)/bin/lint-imports

unit: $(READY)
	$(PYTEST) -m 'not servers'

servers: $(READY)
	$(PYTEST) -m servers

coverage: $(READY)
	$(PYTEST) --cov --cov-report=
	$(PY) -m coverage report --fail-under=90
	$(PY) -m coverage report --include='$(CORE)' --fail-under=95 --format=total

stress: $(READY)
	$(PY) tests/stress.py

bench: $(READY)
	$(PY) -m benchmarks

conformance: $(READY)
	$(PY) tests/conformance/harness.py

format: $(READY)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .coverage* build dist *.egg-info
