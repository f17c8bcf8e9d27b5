# The front door. Every target builds the .venv that it needs, from a bare clone, with python3 -m venv and pip alone.
PYTHON ?= python3
SEEDS ?= 100
comma := ,
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup test lint reproduce bench clean

help:
	@echo "make setup       build $(VENV) with all that developing needs"
	@echo "make test        run the test suite"
	@echo "make lint        ruff and pyright"
	@echo "make reproduce   the paper's Figures 1 to 6, more, and a report (SEEDS=100; fewer are faster; ALL=1 adds 7 to 10)"
	@echo "make bench       time the gradient kernels side by side"

# Running needs the core alone; developing and testing need the dev extra (PyTorch, Dask, linters).
$(VENV)/core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(VENV)/core $@

setup: $(VENV)/dev

test: $(VENV)/dev
	$(BIN)/python -m pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

reproduce: $(VENV)/core
	$(BIN)/cotflow reproduce --seeds $(if $(findstring :,$(SEEDS))$(findstring $(comma),$(SEEDS)),$(SEEDS),0:$(SEEDS)) $(if $(ALL),--all)

bench: $(VENV)/dev
	$(BIN)/cotflow bench

clean:
	rm -rf $(VENV) build src/*.egg-info
