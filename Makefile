# Everything runs in .venv, which the targets make themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# in the order of tests/conftest.py, not the files with most tests first
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# of speed, each beside its peers
BENCHMARKS ?= decision_cost suggestion_cost engine_overhead ray_overhead optuna_overhead \
	replay_speed fairness_metrics keep_model report_and_dashboard scale

.PHONY: help demo quick quick-tests test test-all pythons lint format docs screenshots bench bench-quick \
	paper release clean

help:
	@echo "make demo    tune LightGBM under a fairness limit (about a minute)"
	@echo "make quick   linters, types, import rules and the tests that need no processes (a minute)"
	@echo "make test    linters, types, import rules and the tests"
	@echo "make test-all the same, with the tests that take long (tests/long_tests.py) and all examples"
	@echo "make pythons the tests on Python 3.11, 3.12 and 3.13 (those without torch)"
	@echo "make lint    the first three of these"
	@echo "make docs    the documentation as a site, in site/"
	@echo "make screenshots   the pictures of report, dashboard and terminal in docs/"
	@echo "make bench   the benchmarks of speed, side by side with peers that were not measured on"
	@echo "             this code yet (all: 60 to 75 minutes; BENCHMARKS=NAME: one; AGAIN=1: measured or not)"
	@echo "make bench-quick   each of them on small sizes, which writes nothing (under 5 minutes)"
	@echo "make paper   the paper's tables and figures again, in results/ (over 40 minutes)"
	@echo "make release builds the packages in dist/, after all checks (docs/releasing.md)"

demo: $(VENV)/.demo
	$(BIN)/acetune demo

# the linters beside the tests; what tests are quick: tests/quick.py
quick: $(VENV)/.dev
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick-tests

quick-tests: $(VENV)/.dev
	$(PYTEST) --quick tests src/acetune/core src/acetune/policies

test: lint
	@tools/browser.sh
	$(PYTEST)

test-all: lint
	@tools/browser.sh
	$(PYTEST) --all

pythons: $(VENV)/.dev
	@tools/browser.sh
	$(BIN)/python tools/pythons.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html, or with search: python3 -m http.server -d site"

screenshots: $(VENV)/.dev
	@tools/browser.sh
	$(BIN)/python tools/screenshots.py
	$(BIN)/python tools/make_cast.py

bench: $(VENV)/.dev
	@names="$(BENCHMARKS)"; \
	test -n "$(AGAIN)" || names=$$($(BIN)/python tools/make_speed_page.py --due $$names) || exit; \
	for name in $$names; do $(BIN)/python benchmarks/$$name.py || exit; done
	$(BIN)/python tools/make_speed_page.py

bench-quick: $(VENV)/.dev
	@for name in $(BENCHMARKS); do $(BIN)/python benchmarks/$$name.py --quick || exit; done

paper: $(VENV)/.dev
	$(BIN)/python -m paper

release: test-all docs pythons
	$(BIN)/python tools/release.py

clean:
	rm -rf $(VENV) .venv-3.* dist benchmarks/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[lightgbm]'
	@touch $@

# torch by its exact version first: where an index carries a CPU build of it, that one is taken, and
# the range in the extra is then satisfied
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.demo
