# make demo   set up, then fine-tune the tiny base on drawn pictures: the whole way in minutes
# make test   set up, then lint, types, import contracts and the fast tests
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: demo test slow install check format clean

demo: install
	$(BIN)/python train.py

test: install check
	$(BIN)/python -m pytest

slow: install
	$(BIN)/python -m pytest -m "slow and not campaign"

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

install: $(STAMP)

# pip, not another installer: a machine with its own torch index is served by pip's own environment variables.
$(STAMP): pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c requirements.lock -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
