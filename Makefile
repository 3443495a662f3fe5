# The two commands of the README: make demo, make test. The long ones: make faults, make bench, make reproduce.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
TIER ?= 1
MINUTES ?= 150

.PHONY: demo test faults bench reproduce lint clean

demo: $(VENV)/run.stamp
	$(BIN)/fedskew demo

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal

faults: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

bench: $(VENV)/run.stamp
	$(BIN)/fedskew bench

reproduce: $(VENV)/run.stamp
	$(BIN)/fedskew reproduce all --tier $(TIER) --minutes $(MINUTES)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
