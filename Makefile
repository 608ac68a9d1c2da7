# Every target makes its own virtual environment in .venv and installs what it needs.
# Pick another interpreter with `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python -m
PIP    := $(RUN) pip install -qq --disable-pip-version-check
PYTEST_ARGS ?= -n auto
BENCH_ARGS  ?=
OUT         := results
# The newest supported Python there is; a version manager's stub without a Python behind it does not count.
NEWEST_PYTHON ?= $(or $(shell for v in 3.13 3.12; do \
  python$$v -c 'import sys; print(sys.executable)' 2>/dev/null && break; done),$(PYTHON))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-oldest test-newest lint format bench reproduce docs figures clean

help:  ## show this list
	@echo "usage: make TARGET"
	@echo
	@sed -n 's/^\([a-z-]*\):.*##/  \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(VENV)/demo.stamp  ## learn to match a horse; writes a page to permatch-demo/
	@$(RUN) permatch demo

test: lint  ## lint, then run all tests
	$(RUN) pytest -m "not gpu and not data" $(PYTEST_ARGS)

# Old packages use what newer ones below them have deprecated; that is not ours to mend.
test-oldest: .venv-oldest/test.stamp  ## run all tests with the oldest dependencies allowed
	.venv-oldest/bin/python -m pytest -m "not gpu and not data" -W ignore::DeprecationWarning \
	  $(PYTEST_ARGS)

test-newest: .venv-newest/test.stamp  ## run all tests with the newest Python and dependencies
	.venv-newest/bin/python -m pytest -m "not gpu and not data" $(PYTEST_ARGS)

lint: $(VENV)/dev.stamp  ## check style, formatting, types and the import contract
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) basedpyright --pythonpath $(VENV)/bin/python
	$(VENV)/bin/lint-imports

format: $(VENV)/dev.stamp  ## format the code and apply the safe fixes
	$(RUN) ruff check --fix-only .
	$(RUN) ruff format .

bench: $(VENV)/bench.stamp  ## run the benchmarks
	$(RUN) benchmarks $(BENCH_ARGS)

# DATA=folder says where data is, QUICK=1 takes the small experiments, ONLY=house one of them.
reproduce: $(VENV)/demo.stamp  ## repeat the paper's experiments; DATA=folder QUICK=1 ONLY=house OUT=results
	@$(RUN) reproduce $(or $(ONLY),all) --out '$(OUT)' $(if $(QUICK),--quick) \
	  $(if $(DATA),$(if $(filter silhouettes,$(ONLY)),,--data '$(DATA)'))

# From scratch every time: pages show what today's code prints.
docs: $(VENV)/docs.stamp  ## build the documentation site in docs/_build/html
	@rm -rf docs/_build docs/api/generated
	$(RUN) sphinx -q -W --keep-going -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "the site is at docs/_build/html/index.html"

figures: demo  ## bring the demo's picture and numbers in README and docs up to date
	@mkdir -p docs/results
	@cp permatch-demo/horse.png docs/_static/horse.png
	@cp permatch-demo/demo.json docs/results/demo.json
	@echo "README.md names the numbers it takes from docs/results; make test compares them"

clean:  ## remove the environment, caches and build products
	rm -rf $(VENV) .venv-oldest .venv-newest build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/api/generated
	find src tests reproduce benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation is taken up again.
$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$($(PYTHON) --version 2>/dev/null) || found="not there"; \
	  echo "error: permatch needs Python 3.11 or newer; \`$(PYTHON)\` is $$found." \
	    "Try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/demo.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch into $(VENV) (about a minute, once)"
	@$(PIP) --editable '.[vision,plots]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the development tools into $(VENV) (about a minute, once)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/bench.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and its rivals into $(VENV) (about a minute, once)"
	@$(PIP) --editable '.[bench]'
	@touch $@

$(VENV)/docs.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the documentation tools into $(VENV) (about a minute, once)"
	@$(PIP) --editable '.[docs]'
	@touch $@

# uv, unlike pip, can choose the lowest versions that pyproject.toml allows.
.venv-oldest/test.stamp: pyproject.toml
	@echo "installing permatch with its oldest dependencies into .venv-oldest"
	@$(PYTHON) -m venv --clear .venv-oldest
	@.venv-oldest/bin/python -m pip install -qq --disable-pip-version-check uv
	@VIRTUAL_ENV=$(CURDIR)/.venv-oldest .venv-oldest/bin/uv pip install -q \
	  --resolution lowest-direct --editable '.[vision,plots,tables,serving]'
	@VIRTUAL_ENV=$(CURDIR)/.venv-oldest .venv-oldest/bin/uv pip install -q --editable '.[test]'
	@touch $@

.venv-newest/test.stamp: pyproject.toml
	@echo "installing permatch with $$($(NEWEST_PYTHON) --version) and the newest dependencies into .venv-newest"
	@$(NEWEST_PYTHON) -m venv --clear .venv-newest
	@.venv-newest/bin/python -m pip install -qq --disable-pip-version-check --editable '.[test]'
	@touch $@
