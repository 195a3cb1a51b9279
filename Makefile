# Everything a person or a machine runs. `make` alone prints this list.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PREFECT_SERVER_ANALYTICS_ENABLED ?= false
export DO_NOT_TRACK ?= 1
# Compiled modules are kept, whatever the environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help install demo test test-system studies test-engines test-wheel truth check check-types check-style simulate bench serve docs wheel clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# pip would compile all modules on one core, a third of its time: `make install` does it on all, others when they import.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt

# A stamp is newer than the files that name dependencies, so installing again costs nothing.
# The demo and the schedules need the base only, which is installed sooner than what tests and linters add.
$(VENV)/.base: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e .
	touch $@

$(VENV)/.installed: $(VENV)/.base
	$(PIP_INSTALL) -e '.[dev]'
	touch $@

# Some packages carry files for another Python, which cannot be compiled.
$(VENV)/.compiled: $(VENV)/.installed
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

install: $(VENV)/.compiled ## .venv with calmon and all it needs, what tests and linters need too

demo: $(VENV)/.base ## the main job on made-up data, through the Prefect flows; prints what it found
	@$(BIN)/python -m flows.demo

# More workers than cores: some tests wait for a process they started. Each worker imports and collects everything (10 s). By file: a module's Prefect server, demo or browser is started once. (xdist 3.8 has no groups with pytest 9.2.)
# In the order of tests/conftest.py, which has the longest files first: at the end neither core waits for the other.
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
WORKERS := 3
test-system: WORKERS := 4
# What draws samples by the thousand, or plays histories.
STUDIES := tests/statistical tests/truth tests/unit/benchmarks tests/unit/evaluation/test_wrong_truths.py \
  $(addprefix tests/unit/inference/test_,$(addsuffix .py,before_truth detectability rows_bootstrap sequential))
# What starts servers, workers, browsers and wheels, kills processes, or lives through weeks.
# And machines that try random steps for long, and whole first days.
SYSTEM := tests/system tests/browser tests/unit/docs/test_site.py tests/unit/flows/test_spread.py \
  tests/properties/test_switch_machine.py tests/properties/test_gate_past.py tests/unit/evaluation/test_shift_drift_report.py \
  tests/unit/report/test_figures_png.py \
  $(addprefix tests/integration/test_,$(addsuffix .py,catch_up console_examples demo faults gate_closes gate_http gate_replica http http_lanes \
  http_schema idle_connections init kill main_job monitor_incidents prefect_flows secrets serve_killed slack_faults small_labels sources_apart \
  switch_concurrency version_and_serve watching wheel))

# Of engines that read alike DuckDB is asked here, and each of them in `make test-engines`.
test: install ## all tests but those of the whole system, of other engines, and the statistical and scale suites
	TEST_ENGINES=duckdb $(PYTEST) $(addprefix --ignore=,$(STUDIES) $(SYSTEM) tests/engines tests/properties/test_odd_data.py)

test-system: install ## Prefect, the service, the demo, wheels, a browser, what compose starts: real processes, some of them killed
	$(PYTEST) $(SYSTEM)

studies: install ## those suites at their small size: the study, seeded histories, benchmarks
	$(PYTEST) $(STUDIES)

# Their drivers are large, so `make install` leaves them out. The tests of the warehouse run once more, on these engines.
$(VENV)/.engines: $(VENV)/.installed
	$(PIP_INSTALL) -e '.[engines]'
	touch $@

# Of other packages: sockets that py4j leaves open, and what fakesnow asks of DuckDB.
QUIET := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning -W "ignore:Arrow output:UserWarning"
READING := $(addprefix tests/integration/test_,warehouse_reading.py reading_plan.py)
WAREHOUSE := $(addprefix tests/integration/test_,warehouse_kinds.py warehouse_shapes.py survey.py examples.py delays.py)
LOADED := $(addprefix tests/integration/test_,warehouse_relations.py warehouse_binary.py examined.py unresolved.py \
  date_forms.py pruning.py labels_as_numbers.py single_precision.py odd_files.py) tests/properties/test_odd_data.py

# The other tests of these files ask no engine, so `make test` is enough for them.
READ_ALIKE := $(BIN)/python -m pytest -n 2 --dist load -m engines

# Spark's tests end before code that Java optimises slowly is ever faster.
BRIEF_JAVA := JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

test-engines: $(VENV)/.engines ## the same rows in SQLite, PostgreSQL, and what comes as extras: ClickHouse, Spark (wants java), Snowflake; others compiled
	@command -v java >/dev/null || { echo "Spark wants java: apt-get install default-jre-headless"; exit 1; }
	TEST_ENGINES=duckdb,sqlite,postgresql $(READ_ALIKE) $(LOADED)
	TEST_ENGINES=duckdb,sqlite,postgresql,clickhouse $(READ_ALIKE) $(WAREHOUSE)
	TEST_ENGINES=duckdb,sqlite,postgresql,clickhouse,snowflake $(READ_ALIKE) $(QUIET) $(READING)
	$(BIN)/python -m pytest tests/system/test_first_day.py -k clickhouse
	$(BRIEF_JAVA) $(BIN)/python -m pytest -n 2 --dist loadfile $(QUIET) tests/engines

# As a person installs it: without constraints, so with the newest versions that the bounds allow.
FRESH := build/fresh
# Where there is no alerts.yaml, the demo works in a folder of its own, with the rules that are shipped.
test-wheel: wheel ## the wheel in a new environment, with the newest versions that its bounds allow: `calmon demo` there
	$(PYTHON) -m venv $(FRESH)
	$(FRESH)/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd $(FRESH) && bin/calmon demo && test -d calmon-demo/var/reports && cmp calmon-demo/alerts.yaml ../../alerts.yaml

# Each history is some weeks with labels that break and heal, people and outages; see CONTRIBUTING.md, "What is told is what is stored".
truth: install ## 300 seeded histories: every story is what the stored rows say, every message and page its story (half an hour)
	$(BIN)/python -m tests.truth $(OPTIONS)

check: check-types check-style ## linters, types, import contract (with `make -j 2`: beside each other)

check-types: $(VENV)/.installed
	$(BIN)/mypy

check-style: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/hadolint deployments/Dockerfile

# OPTIONS="--quick": a look in seconds; "--resume": go on after an interruption; "--write-docs": into benchmarks/results/statistics.md
simulate: install ## the statistical study: coverage, false alarms, power (hours; OPTIONS=--quick)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.simulate $(OPTIONS)

# OPTIONS="--quick": a look in a minute; "--write-docs": into benchmarks/results/.
# Optional peers (netcal, torchmetrics, relplot; they bring torch): .venv/bin/pip install -c constraints.txt -e '.[peers]'
bench: install ## speed against peers, replays, the gate, in one run (minutes; OPTIONS=--quick)
	$(BIN)/python -m benchmarks.bench $(OPTIONS)

serve: $(VENV)/.base ## the weekly and daily schedules in one process, nothing else to start
	$(BIN)/python -m flows.serve

docs: install ## docs/ as a site in site/; a missing page, link or anchor is an error
	$(BIN)/python -m mkdocs build --strict --quiet

wheel: install ## dist/: a wheel and an sdist, to be installed where no checkout is
	rm -rf build dist
	$(BIN)/python -c 'from setuptools import build_meta as b; b.build_sdist("dist"); b.build_wheel("dist")'

clean: ## forget the demo's data and history
	rm -rf var
