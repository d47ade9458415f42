# What people do with asup, one target each. `make` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
SECONDS ?= 20
DEMO ?= train --config examples/demo.toml

# ThreadSanitizer needs an address space that is not randomised too far; some systems forbid this.
TSAN_RUN := $(shell setarch -R true 2> /dev/null && echo setarch -R)

# $(call build,PRESET[,TARGET]): configures build/PRESET and builds TARGET in it, or everything.
define build
	@echo "==> Build: build/$(1)$(if $(2), ($(2)))"
	@cmake --preset $(1) --log-level=WARNING > /dev/null
	@cmake --build --preset $(1) -j $(JOBS) $(if $(2),--target $(2))
endef

.PHONY: help
help: ## list these targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
	  awk -F '|' '{ printf "  make %-10s %s\n", $$1, $$2 }'

.PHONY: setup
setup: ## install what asup is built with (Debian packages, PyTorch in .venv)
	@tools/setup.sh

.PHONY: build
build: setup ## build the program: build/release/asup
	$(call build,release,asup_cli)

.PHONY: demo
demo: build ## train a small network with two workers; the results are in runs/demo
	@echo "==> Demo: asup $(DEMO)"
	@rm -rf runs/demo.previous-*  # of earlier demos one stays: asup train moves the last one there
	@build/release/asup $(DEMO)

.PHONY: test
test: setup ## run all tests
	$(call build,release)
	@echo "==> Tests: all"
	@ctest --preset release -j $(JOBS)

.PHONY: test-fast
test-fast: setup ## run the fast tests: a few minutes
	$(call build,release)
	@echo "==> Tests: fast"
	@ctest --preset release -j $(JOBS) -L fast

.PHONY: asan
asan: setup ## run fast tests under AddressSanitizer, the core's under UndefinedBehaviorSanitizer too
	$(call build,asan,asup_sanitized_tests)
	@echo "==> Tests: fast, under AddressSanitizer and UndefinedBehaviorSanitizer"
	@ctest --preset asan -j $(JOBS) -L sanitized $(CTEST)

.PHONY: tsan
tsan: setup ## run the core's fast tests under ThreadSanitizer
	$(call build,tsan,asup_sanitized_tests)
	@echo "==> Tests: fast, core only, under ThreadSanitizer"
	@$(TSAN_RUN) ctest --preset tsan -j $(JOBS) -L sanitized $(CTEST)

.PHONY: fuzz
fuzz: setup ## run libFuzzer on what reads files and messages, SECONDS=20 for each target
	@JOBS=$(JOBS) tools/fuzz.sh $(SECONDS)

.PHONY: soak
soak: setup ## run the tests that take minutes each
	$(call build,release)
	@echo "==> Tests: soak"
	@ctest --preset release -C Soak -L soak

.PHONY: arm x86
arm: ## on x86-64: cross-build the core for aarch64 and run tests of it under qemu
x86: ## on aarch64: the same for x86-64
arm x86:
	@JOBS=$(JOBS) tools/cross.sh $@ all

.PHONY: bench
bench: setup ## run the benchmarks (BENCH='--quick' for a short look; more in bench/README.md)
	$(call build,release)
	@for bench in build/release/bench/bench_*; do \
	  echo "==> Benchmark: $$bench $(BENCH)"; "$$bench" $(BENCH); done

.PHONY: format
format: ## format the sources
	@tools/format.sh

.PHONY: check
check: ## check the format and the layers of the sources
	@echo "==> Format"
	@tools/format.sh --check
	@echo "==> Layers"
	@tools/check_layers.py

.PHONY: clean
clean: ## remove what was built (not .venv)
	rm -rf build
