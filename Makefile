# `make run` starts the page, `make test` runs every check; both prepare .venv first, and a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: setup setup-dev run test test-browser lint format bench screenshots space clean

setup: $(VENV)/.ready

setup-dev: $(VENV)/.ready-dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: requirements.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --editable .
	@touch $@

$(VENV)/.ready-dev: requirements-dev.txt requirements-onnx.txt $(VENV)/.ready
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements-dev.txt
	@touch $@

run: setup
	$(BIN)/python app.py $(ARGS)

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint
	$(BIN)/python -m pytest $(ARGS)

test-browser: setup-dev
	$(BIN)/python -m pytest tests/page -m "browser or not browser" $(ARGS)

bench: setup-dev
	$(BIN)/python -m benchmarks.generator
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.memory
	$(BIN)/python -m benchmarks.startup

screenshots: setup-dev
	$(BIN)/python -m docs.make_screenshots

# What to push to a Hugging Face Space: this checkout's last commit, with the front matter that a Space reads.
space:
	rm -rf build/space && mkdir -p build/space
	git archive HEAD | tar -x -C build/space
	cat space/front-matter.yml README.md > build/space/README.md
	cp space/pre-requirements.txt build/space/

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
