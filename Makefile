# Everything on a bare machine with Python 3.11, 3.12 or 3.13:
#
#   make plan    install into .venv and plan HetAuto's second experiment
#   make test    the same, then lint, types, and tests on the built package
#   make test-slow
#                the tests that take long: fuzzing, interrupts, other solvers' readers,
#                and more drawn instances
#   make test-seeds
#                the drawn instances that are left, for an hour or so
#   make test-torch
#                the profiler's tests, and what is exported tried with the runtimes
#                themselves, with PyTorch in a venv of their own
#   make docs    the pages of docs/ as a site in build/site that needs no network,
#                made in a venv of its own; a broken link fails it
#   make bench   the shorter experiments that docs/ quotes; the longer ones
#                (compare, figures, growth, rivals) have commands of their own

VENV := .venv
TORCH_VENV := .venv-torch
DOCS_VENV := .venv-docs
# Any version that the profile extra allows; a CPU build will do.
TORCH ?= torch==2.13.0
# Read for how they parse what is exported for them; what they need is not installed.
RUNTIMES := megatron-core==0.16.1 megatron-bridge==0.3.1 \
  torchtitan==0.3.0 spmd_types==0.2.3 tyro docstring_parser typeguard
# Tried in this order; PYTHON=/path/to/python goes first.
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11 python
# Which versions are installed for tests, torch and docs.
CONSTRAINTS := .ci/constraints.txt
PROBLEM := data/problems/hetauto-exp2.yaml

BIN := $(VENV)/bin
LIBRARIES := $(VENV)/.libraries
INSTALLED := $(VENV)/.installed
# What goes into the wheel; the links hetopt/{data,...} are not followed.
SOURCES := $(shell find hetopt formulations solvers data -type f ! -path '*/__pycache__/*')

.PHONY: plan test test-slow test-seeds test-torch docs bench install clean

plan: install
	$(BIN)/hetopt compile
	$(BIN)/hetopt plan $(PROBLEM)

test: plan
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	rm -rf build/root && mkdir -p build/root
	ln -s ../../tests ../../benchmarks build/root
	HETOPT_TEST_INSTALLED=1 $(BIN)/pytest -n auto -o pythonpath=build/root

test-slow test-seeds: test-%: install
	rm -rf build/root && mkdir -p build/root
	ln -s ../../tests ../../benchmarks build/root
	HETOPT_TEST_INSTALLED=1 $(BIN)/pytest -n auto -m $* -o pythonpath=build/root

# -P: the package is the installed one, not this folder's.
test-torch: $(TORCH_VENV)/.installed
	rm -rf build/root && mkdir -p build/root
	ln -s ../../tests ../../benchmarks build/root
	$(TORCH_VENV)/bin/hetopt compile
	$(TORCH_VENV)/bin/python -P -m pytest -m "torch or runtimes" \
	  -o pythonpath=build/root tests/profile tests/runtimes

docs: $(DOCS_VENV)/.installed
	$(DOCS_VENV)/bin/mkdocs build --config-file docs/site/mkdocs.yml

bench: install
	$(BIN)/python -m benchmarks.simulator
	$(BIN)/python -m benchmarks.hetauto
	$(BIN)/python -m benchmarks.published
	$(BIN)/python -m benchmarks.published --half
	$(BIN)/python -m benchmarks.speed --out benchmarks/results/speed.md
	$(BIN)/python -m benchmarks.proofs
	$(BIN)/python -m benchmarks.hapt
	$(BIN)/python -m benchmarks.agreement dp cp-sat milp --certificates
	$(BIN)/python -m benchmarks.uniap
	$(BIN)/python -m benchmarks.exports --out benchmarks/results/exports.md

install: $(INSTALLED)

clean:
	rm -rf build dist hetopt.egg-info $(VENV) $(TORCH_VENV) $(DOCS_VENV)

# The package as users get it: a wheel, not a link to this folder. The build
# folder is emptied first because setuptools would pack deleted files from it.
$(INSTALLED): $(LIBRARIES) $(SOURCES) README.md LICENSE
	rm -rf build hetopt.egg-info
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .
	$(BIN)/python -m pip install --quiet --no-deps --force-reinstall build/wheel/*.whl
	touch $@

# --group needs pip 25.1. Dependencies are read from pyproject.toml by pip itself:
# hetopt comes along here, and is replaced by the wheel above.
$(LIBRARIES): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --group dev .
	touch $@

# The wheel of `make install` once more, with the profile extra.
$(TORCH_VENV)/.installed: $(INSTALLED)
	$(BIN)/python -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(TORCH_VENV)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) \
	  '$(TORCH)'
	$(TORCH_VENV)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) \
	  --group torch "$$(echo build/wheel/*.whl)[profile]"
	$(TORCH_VENV)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) \
	  --no-deps $(RUNTIMES)
	$(TORCH_VENV)/bin/python -m pip install --quiet --no-deps --force-reinstall \
	  build/wheel/*.whl
	touch $@

# The site is made of Markdown alone: hetopt itself is not installed.
$(DOCS_VENV)/.installed: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(BIN)/python -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(DOCS_VENV)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) \
	  --group docs
	touch $@

$(BIN)/python:
	@for python in $(PYTHONS); do \
	  if "$$python" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	      2>/dev/null; then \
	    echo "$$python -m venv $(VENV)"; \
	    exec "$$python" -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 to 3.13 with venv and ensurepip among: $(PYTHONS)" >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python" >&2; \
	exit 1
