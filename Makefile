# Every target makes its own virtual environment in .venv and installs what it needs.
# Pick another interpreter with `make test PYTHON=python3.12`.

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python -m
PIP    := $(RUN) pip install -qq --disable-pip-version-check
# Fixtures are made once per file, and doctests, the smallest files, come last.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
# Every processor has a test to run: more threads would be in each other's way.
export OPENBLAS_NUM_THREADS ?= 1
# Compiled tests are kept: compiling them takes longer than most of them.
unexport PYTHONDONTWRITEBYTECODE
# Types are checked while the tests run; the report is shown at the end.
# Without PyTorch there are no types to check the code for it against.
WITHOUT_TORCH := $$(ls -d $(VENV)/lib*/python*/site-packages/torch >/dev/null 2>&1 || \
  echo -p .types-without-torch.json)
TYPES := $(RUN) basedpyright --pythonpath $(VENV)/bin/python $(WITHOUT_TORCH)
define TYPES_AND_TESTS
@echo '$(TYPES) & pytest $(1)'
@$(TYPES) >$(VENV)/types.log 2>&1 & types=$$!; trap 'kill $$types' INT; \
  $(RUN) pytest $(1) $(PYTEST_ARGS); tests=$$?; \
  wait $$types || tests=1; cat $(VENV)/types.log; exit $$tests
endef
BENCH_ARGS  ?=
OUT         := results
# The newest supported Python installed; a version manager's empty stub does not count.
NEWEST_PYTHON ?= $(or $(shell for v in 3.13 3.12; do \
  python$$v -c 'import sys; print(sys.executable)' 2>/dev/null && break; done),$(PYTHON))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo check test test-oldest test-newest lint style format bench reproduce docs docs-refresh release clean

help:  ## show this list
	@echo "usage: make TARGET"
	@echo
	@sed -n 's/^\([a-z-]*\):.*##/  \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(VENV)/demo.stamp  ## run the demo; writes a page to permatch-demo/
	@$(RUN) permatch demo

check: style  ## lint and run the quick tests
	$(call TYPES_AND_TESTS,-m "not slow and not gpu and not data" tests src)

test: style  ## lint and run all tests
	$(call TYPES_AND_TESTS,-m "not gpu and not data")

# Old packages use features that newer versions of their dependencies have deprecated.
test-oldest: .venv-oldest/test.stamp  ## run all tests with the oldest supported dependencies
	.venv-oldest/bin/python -m pytest -m "not gpu and not data" -W ignore::DeprecationWarning \
	  $(PYTEST_ARGS)

test-newest: .venv-newest/test.stamp  ## run all tests with the newest Python and dependencies
	.venv-newest/bin/python -m pytest -m "not gpu and not data" $(PYTEST_ARGS)

lint: style  ## check style, formatting, types and the import contract
	$(TYPES)

style: $(VENV)/dev.stamp
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(VENV)/bin/lint-imports

format: $(VENV)/dev.stamp  ## format the code and apply safe fixes
	$(RUN) ruff check --fix-only .
	$(RUN) ruff format .

bench: $(VENV)/bench.stamp  ## run the benchmarks
	$(RUN) benchmarks $(BENCH_ARGS)

# DATA=folder contains the data, QUICK=1 runs small experiments, ONLY=house runs just one,
# with DEVICE=cuda on a GPU.
reproduce: $(VENV)/reproduce.stamp  ## repeat the paper's experiments; DATA=folder QUICK=1 ONLY=house OUT=results
	@$(RUN) reproduce $(or $(ONLY),all) --out '$(OUT)' $(if $(QUICK),--quick) \
	  $(if $(DATA),$(if $(filter silhouettes neural,$(ONLY)),,--data '$(DATA)')) \
	  $(if $(DEVICE),--device '$(DEVICE)')

# Always from scratch: the reference shows the docstrings of the current code.
docs: $(VENV)/docs.stamp  ## build the documentation site in docs/_build/html
	@rm -rf docs/_build docs/api/generated
	$(RUN) sphinx -q -W --keep-going -n -b html -d docs/_build/doctrees docs docs/_build/html
	@echo "documentation written to docs/_build/html/index.html"

# PAGES="docs/quickstart.md docs/index.md" names some; the default is all.
docs-refresh: $(VENV)/docs.stamp  ## run the code of the pages and rewrite the outputs that changed
	$(VENV)/bin/python docs/_ext/page_text.py $(PAGES)

# What people install: each file by itself, with what the README's examples need, and nothing
# of this clone on the path.
release: $(VENV)/dev.stamp  ## build sdist and wheel in dist/; run the README with each in an empty environment
	@rm -rf dist
	@$(RUN) hatchling build
	@for file in dist/*.whl dist/*.tar.gz; do \
	  echo "installing $$file into .venv-release"; \
	  $(PYTHON) -m venv --clear .venv-release && \
	  .venv-release/bin/python -m pip install -qq --disable-pip-version-check "$$file[tables]" && \
	  .venv-release/bin/python docs/_ext/page_text.py --check README.md || exit 1; \
	done; rm -rf .venv-release

clean:  ## remove environments, caches and build products
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-release build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/api/generated
	find src tests reproduce benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so that an interrupted installation is repeated.
$(VENV)/venv.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  found=$$($(PYTHON) --version 2>/dev/null) || found="missing"; \
	  echo "error: permatch needs Python 3.11 or newer; \`$(PYTHON)\` is $$found." \
	    "Try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "creating the virtual environment $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/demo.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch into $(VENV) (once, about a minute)"
	@$(PIP) --editable '.[vision,plots,tables]'
	@touch $@

$(VENV)/reproduce.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the libraries it is compared with into $(VENV) (once, about a minute)"
	@$(PIP) --editable '.[reproduce]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/dev.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the development tools into $(VENV) (once, about a minute)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/demo.stamp $(VENV)/reproduce.stamp

$(VENV)/bench.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the libraries it is compared with into $(VENV) (once, about a minute)"
	@$(PIP) --editable '.[bench]'
	@touch $@

$(VENV)/docs.stamp: pyproject.toml $(VENV)/venv.stamp
	@echo "installing permatch and the documentation tools into $(VENV) (once, about a minute)"
	@$(PIP) --editable '.[docs]'
	@touch $@

# uv, unlike pip, can choose the lowest versions that pyproject.toml allows.
.venv-oldest/test.stamp: pyproject.toml
	@echo "installing permatch with its oldest dependencies into .venv-oldest"
	@$(PYTHON) -m venv --clear .venv-oldest
	@.venv-oldest/bin/python -m pip install -qq --disable-pip-version-check uv
	@VIRTUAL_ENV=$(CURDIR)/.venv-oldest .venv-oldest/bin/uv pip install -q \
	  --resolution lowest-direct --editable '.[vision,plots,link,serving]'
	@VIRTUAL_ENV=$(CURDIR)/.venv-oldest .venv-oldest/bin/uv pip install -q --editable '.[test]'
	@touch $@

.venv-newest/test.stamp: pyproject.toml
	@echo "installing permatch with $$($(NEWEST_PYTHON) --version) and the newest dependencies into .venv-newest"
	@$(NEWEST_PYTHON) -m venv --clear .venv-newest
	@.venv-newest/bin/python -m pip install -qq --disable-pip-version-check --editable '.[test]'
	@touch $@
