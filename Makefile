# Everything a person or a machine runs. `make` alone prints this list.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PREFECT_SERVER_ANALYTICS_ENABLED ?= false
export DO_NOT_TRACK ?= 1

.DEFAULT_GOAL := help
.PHONY: help install demo test check simulate bench serve clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The stamp is newer than the files that name dependencies, so installing again costs nothing.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

install: $(VENV)/.installed ## .venv with calmon and all it needs

demo: install ## the main job on made-up data, through the Prefect flows; prints what it found
	@$(BIN)/python -m flows.demo

# By file: a module's Prefect server, demo or browser is started once. (xdist 3.8 has no groups with pytest 9.2.)
test: install ## all tests but the statistical and scale suites
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: install ## linters, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/hadolint deployments/Dockerfile

simulate: install ## the statistical suite: coverage of intervals and false alarms (minutes)
	$(BIN)/python -m benchmarks.simulate

bench: install ## speed against peers, in one run
	$(BIN)/python -m benchmarks.bench

serve: install ## the weekly and daily schedules in one process, nothing else to start
	$(BIN)/python -m flows.serve

clean: ## forget the demo's data and history
	rm -rf var
