# The same verbs everywhere. Needs Linux, Python 3.11 or newer with venv and its headers, a C compiler, and the
# network once.
#
#   make run        a cluster of 3 controllers and 3 brokers in the foreground; Ctrl-C stops it
#   make test       everything that is quick            make test-slow   what takes minutes
#   make check      lint and the quick unit tests: before each commit
#   make unit       the quick unit tests alone
#   make build      compile what changed                make lint        ruff and mypy
#   make dev        that, and what tests need           make kafka       Apache Kafka's jars and kcat, for tests
#   make bench      measured, against Kafka             make sim         fresh seeds through the simulator
#   make demo       produce, kill the leader, consume   make mutants     hunt planted mistakes with fresh seeds
#   make kips       break each row of docs/kips.md      make wheel      a wheel, for machines without a compiler
#   make schemas    stubs of the messages, after a change of a schema
#   make docs       the pages of docs/ as a site, in build/site
#   make clean      take away what was built and fetched

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(name) 2>/dev/null)))
VENV ?= .venv
PY := $(VENV)/bin/python
KAFKA := 4.3.1
ARGS ?=
SEEDS ?= 100
FIRST ?= 0
SOURCES := $(wildcard fastpath/*.p[yx][xd] fastpath/*/*.p[yx][xd])

# Each node is a process: where nothing that is compiled may be kept, each compiles every module anew when it starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-slow check unit build dev wheel schemas docs lint bench sim mutants kips demo kafka clean help
.DEFAULT_GOAL := help

help:
	@sed -n '/^$$/q;s/^# \{0,1\}//p' Makefile

$(VENV)/.made: pyproject.toml
	@test -n "$(PYTHON)" || { echo "make: no python3 found: install Python 3.11 or newer"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is too old: write PYTHON=/path/to/python3.11"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { echo "make: no venv: install python3-venv, or write VENV=/path/to/one"; exit 1; }
	$(PY) -m pip install -q --disable-pip-version-check "setuptools>=77" "cython>=3.1" "shtab>=1.13" wheel
	@touch $@

$(VENV)/.built: $(VENV)/.made setup.py $(SOURCES)
	$(PY) setup.py -q build_ext --inplace
	@touch $@

$(VENV)/.installed: $(VENV)/.built pyproject.toml
	@test $@ -nt pyproject.toml || RAYFT_BUILT=1 $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --editable .
	@touch $@

$(VENV)/.developed: $(VENV)/.installed pyproject.toml
	@test $@ -nt pyproject.toml || { $(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' > $(VENV)/dev.txt && $(PY) -m pip install -q --disable-pip-version-check -r $(VENV)/dev.txt; }
	@touch $@

build: $(VENV)/.installed

dev: build $(VENV)/.developed

# Compiles anew, away from the tree, so that nothing old gets in.
wheel: $(VENV)/.made
	rm -rf build/lib.* build/bdist.* build/temp.*/build
	$(PY) -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

run: build
	@$(VENV)/bin/rayft up $(ARGS)

test: dev kafka
	SIMULATOR_SEEDS=8 RAYFT_RAFT_SEEDS=150 RAYFT_RAFT_CHANGING_SEEDS=100 $(PY) -m pytest -m "not slow" -n auto $(ARGS)

test-slow: dev kafka
	$(PY) -m pytest -m slow $(ARGS)

# What type checkers and editors know of the messages: kept in the repository.
schemas: build
	$(PY) -m actors.wire.stubs

# Fails where a page is not in the list of mkdocs.yml, or a link leads nowhere.
docs: $(VENV)/.made
	$(PY) -m pip install -q --disable-pip-version-check "mkdocs-material>=9.6"
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict

lint: dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

# The quick tests of the code; the others, and those of whole clusters, are in `make test`. They are parts that run beside
# each other and beside the type checker, one more than there are cores since some wait: each collects, and compiles,
# its own files alone, where workers of one run would each do so for all. What no part names is the rest's. Hypothesis
# draws a quarter of its examples. The longest begin first, so that all end together.
UNIT_node := tests/unit/node
UNIT_records := tests/unit/fastpath tests/unit/arrow
UNIT_broker := tests/unit/broker tests/unit/client
UNIT_host := tests/unit/host tests/unit/command
UNIT_replay := tests/unit/replay tests/unit/page
UNIT_tree := $(wildcard tests/unit/test_*.py) tests/unit/wire
UNIT_NAMED := host records node tree broker replay
UNIT_rest := $(filter-out $(foreach part,$(UNIT_NAMED),$(UNIT_$(part))),$(filter-out %/__pycache__,$(patsubst %/,%,$(wildcard tests/unit/*/)))) tests/transcripts
UNITS := $(foreach part,$(UNIT_NAMED) rest,unit-$(part))
AT_ONCE := $(MAKE) --no-print-directory --keep-going --output-sync=target --jobs $(shell expr $$(nproc) + 1)

# A part in which ARGS choose no test passes, all parts together do not.
UNITS_RAN := $(VENV)/.units_ran
RAN_NONE := { echo "make: ARGS choose no test" >&2; exit 5; }

check: dev
	@rm -f $(UNITS_RAN)
	@$(AT_ONCE) $(firstword $(UNITS)) lint $(UNITS)
	@[ -e $(UNITS_RAN) ] || $(RAN_NONE)

unit: dev
	@rm -f $(UNITS_RAN)
	@$(AT_ONCE) $(UNITS)
	@[ -e $(UNITS_RAN) ] || $(RAN_NONE)

unit-%: dev
	@$(PY) -m pytest -m "not slow and not long" --hypothesis-profile quick -q $(UNIT_$*) $(ARGS) && touch $(UNITS_RAN) || [ $$? = 5 ]

bench: dev kafka
	$(PY) -m pytest bench -s $(ARGS)
	$(PY) -m bench.end_to_end
	$(PY) -m bench.cleaner
	$(PY) -m bench.transactions

sim: dev
	$(PY) -m tests.simulator --seeds $(SEEDS) --first $(FIRST) $(ARGS)
	$(PY) -m tests.histories --seeds $(SEEDS) --first $(FIRST)

mutants: dev
	$(PY) -m tests.simulator.planted $(ARGS)

kips: dev kafka
	$(PY) -m tests.kips $(ARGS)

demo: dev
	$(PY) -m bench.demo $(ARGS)

# Apache Kafka's jars and kcat: for tests against real tools. What cannot be had is skipped by those tests, with a reason.
kafka:
	@.ci/kafka $(KAFKA) .kafka

clean:
	rm -rf $(VENV) build dist *.egg-info fastpath/*.so fastpath/*/*.so fastpath/*.c fastpath/*/*.c \
		fastpath/*.html fastpath/*/*.html .kafka .tools .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
