# Everything runs in a private virtual environment, .venv; `make` alone lists the targets.

PY := .venv/bin/python
PYTEST_WORKERS ?= 2
PYTEST := $(PY) -m pytest
# Neighbours stay together, so that what a file's tests share is made once, not once in each worker.
SIDE_BY_SIDE := -n $(PYTEST_WORKERS) --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup setup-envs setup-dev run web serve test test-all coverage test-gpu tests check lint types layers format bench bench-learning zoo kpi docs sbom soak dist clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## make .venv with pinned dependencies; nothing happens when nothing changed
	@./bootstrap.sh

setup-envs: ## and the environments of extras: Box2D, MuJoCo, MiniGrid, Atari
	@./bootstrap.sh envs

setup-dev:
	@./bootstrap.sh dev
	@cd tests && ../$(PY) -m support.chromium >/dev/null
	@web/build.sh

run: setup ## train PPO on CartPole, evaluate it, show what to try next
	@.venv/bin/rlctl launch -f configs/ppo/quickstart.yaml

web: setup ## build the dashboard; nothing happens when nothing changed
	@web/build.sh

serve: web ## build the dashboard and start it with the API and the scheduler
	@.venv/bin/rlctl serve

# One thread per process: small networks lose time to a second one, and tests run side by side already.
test test-all coverage check: export OMP_NUM_THREADS := 1
test test-all coverage check: export OPENBLAS_NUM_THREADS := 1
test test-all coverage check: export MKL_NUM_THREADS := 1
test test-all coverage check: export SDL_VIDEODRIVER := dummy
test test-all coverage check: export PYGAME_HIDE_SUPPORT_PROMPT := 1

# What takes a second comes first and stops everything. The types are checked beside the tests, on the same cores.
test: lint layers ## lint, types, layers and tests
	@$(MAKE) --no-print-directory -j2 types tests MARKS="not slow and not gpu"

test-all: lint layers ## the same with the slow tests
	@$(MAKE) --no-print-directory -j2 types tests MARKS="not gpu"

tests: setup-dev
	$(PYTEST) $(SIDE_BY_SIDE) -m "$(MARKS)"

coverage: setup-dev ## the tests of `make test` once more, with the lines and branches that they ran
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow and not gpu" --cov=rlstudio --cov-report=term:skip-covered

test-gpu: setup-dev ## the tests that need CUDA
	$(PYTEST) -m gpu tests/gpu

check: lint types ## the quick loop while editing: stops at the first failure
	$(PYTEST) -x -m "not slow and not learning and not real_process and not gpu"

lint: setup-dev
	$(PY) -m ruff check
	$(PY) -m ruff format --check

types: setup-dev
	$(PY) -m mypy

layers: setup-dev
	.venv/bin/lint-imports

format: setup-dev ## put the code into the house format and fix what can be fixed
	$(PY) -m ruff check --fix-only
	$(PY) -m ruff format

bench: setup-dev ## speed side by side with other libraries, each in its own environment under .bench/
	$(PY) -m benchmarks.compare

bench-learning: setup-dev ## the learning table: 10 seeds, interquartile mean with interval
	$(PY) -m benchmarks.learning

zoo: setup-dev ## train what is missing of the zoo: a bundle for every config of the learning table
	$(PY) -m benchmarks.zoo

kpi: setup-dev ## every KPI of docs/kpi.md with its goal, and its value from stored results
	@$(PY) -m benchmarks.kpi

# Not the theme's advertisement of its successor.
docs: export NO_MKDOCS_2_WARNING := 1
docs: setup-dev ## the site in build/site; stops at the first warning
	$(PY) -m mkdocs build --strict

sbom: setup-dev ## what the installation consists of, as CycloneDX in dist/sbom.cdx.json
	@$(PY) docs/sbom.py

soak: setup-dev ## half an hour of training while workers are killed: nothing lost, nothing leaked, flat memory
	@$(PY) -m benchmarks.endurance --minutes 30

dist: setup-dev ## wheel and source distribution in dist/, with the dashboard and the zoo in them
	rm -rf dist build
	$(PY) -m build --no-isolation --outdir dist

clean: ## remove caches and build outputs; runs and environments stay
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache htmlcov .coverage .coverage.*
	find . -path ./.venv -prune -o -path ./.bench -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and the virtual environments too
	rm -rf .venv .bench
