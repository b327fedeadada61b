# SPDX-License-Identifier: Apache-2.0
# Everything runs in ./.venv, which `make setup` creates and keeps up to date. `make help` lists the targets.

# The Python (>= 3.11) that the virtual environment is made from.
PYTHON ?= python3
# A package index to take torch from, such as https://download.pytorch.org/whl/cpu; empty: wherever pip looks.
TORCH_INDEX ?=
# 1: use the torch that PYTHON already has, instead of installing the pinned one.
SYSTEM_TORCH ?=

BIN := .venv/bin
FOLDERS := spec reference gpu_impl proofs tool cases

.DEFAULT_GOAL := help
.PHONY: help setup verify test lint sweep upstream upstream-all upstream-e2e clean FORCE

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: .venv/installed ## create .venv and install kvproof with everything it uses

verify: setup ## the main job: prove, check all built-in cases, move and verify real bytes
	$(BIN)/kvproof prove && $(BIN)/kvproof check && $(BIN)/kvproof transfer

test: setup ## run the tests, without the slow ones
	$(BIN)/pytest -n 2

sweep: setup ## run the slow tests and the wide searches
	$(BIN)/pytest -n 2 -m "slow or sweep"

# Each connector with the agent that records, then the ones that know NIXL with the library itself.
upstream: setup ## put the pinned releases of vLLM on the stand, fetched if need be, and run the tests that need them
	$(call on-stand)
	$(BIN)/pytest -m upstream

upstream-all: setup ## the same with all supported releases
	$(call on-stand,--release all)

upstream-e2e: setup ## two whole engines over NIXL, several times: 1 GB to fetch, once, and some minutes
	$(BIN)/pytest -m engines

define on-stand
	$(BIN)/kvproof upstream $(1)
	$(BIN)/kvproof upstream $(1) --nixl real
	$(BIN)/kvproof upstream $(1) --connector nixl-push
	$(BIN)/kvproof upstream $(1) --connector nixl-push --nixl real
	$(BIN)/kvproof upstream $(1) --connector mooncake
	$(BIN)/kvproof upstream $(1) --connector mooncake --nixl real
endef

lint: setup ## static checks: ruff, mypy, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict -p kvproof
	$(BIN)/lint-imports --no-logo

clean: ## remove .venv and everything built
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

.venv/base: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kvproof needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(if $(filter 1,$(SYSTEM_TORCH)),--system-site-packages) .venv
	grep -v $(if $(filter 1,$(SYSTEM_TORCH)),'^torch==','^#') constraints.txt > .venv/constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip setuptools
ifneq ($(TORCH_INDEX),)
	$(BIN)/python -m pip install --no-deps --index-url $(TORCH_INDEX) --constraint constraints.txt torch
endif
	touch $@

# A strict editable install links files one by one, so a file added or removed calls for a new install (a few seconds).
# This list changes only when one was. (PYTHONWARNINGS: setuptools warns at every strict install that it needs build/.)
.venv/files: .venv/base FORCE
	@find $(FOLDERS) \( -name '*.py' -o -name '*.toml' -o -name '*.txt' -o -name py.typed \) | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

.venv/installed: .venv/files pyproject.toml setup.py constraints.txt
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-build-isolation --constraint .venv/constraints.txt \
	  --config-settings editable_mode=strict --editable ".[all,dev]"
	@touch $@
