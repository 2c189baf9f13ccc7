# The commands of this repository. `make` alone lists them.

SECONDS ?= 20
ARGS ?=
MIRI_SECONDS ?= 600
FUZZ_SECONDS ?= 10
# What leads to the store's unsafe modules, and one walk through a whole store: each such takes a minute or two.
MIRI_STORE := epoch:: extents:: item:: large:: segment:: slot:: tier:: a_mark_leaves_value

TARGET := $(or $(CARGO_TARGET_DIR),target)
SUMMARY := .ci/summary
export PATH := $(PATH):$(HOME)/.cargo/bin
# A missing nightly is a skip, not a download.
export RUSTUP_AUTO_INSTALL := 0

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-vm bench lint unit shuttle fuzz miri fmt clean toolchain

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: toolchain ## A server, a multi-tenant load and what sharing gains; SECONDS=20
	@echo 'building (a few minutes the first time)'
	@cargo build --release -q -p cli
	@$(TARGET)/release/cotenant demo --seconds $(SECONDS)

test: toolchain ## Everything that tests: unit, black-box, virtual machines, shuttle, fuzzers, Miri
	@$(SUMMARY) begin test
	@$(SUMMARY) prepare test setup tests/setup.sh
	@$(SUMMARY) prepare test build cargo build --release --workspace
	@$(SUMMARY) run test unit $(MAKE) -s unit
	@$(SUMMARY) run test black-box tests/run.sh
	@$(SUMMARY) run test vm $(MAKE) -s test-vm
	@$(SUMMARY) run test shuttle $(MAKE) -s shuttle
	@$(SUMMARY) run test fuzz $(MAKE) -s fuzz
	@$(SUMMARY) run test miri $(MAKE) -s miri
	@$(SUMMARY) end test

bench: toolchain ## Side by side with memcached, as ratios; ARGS=...
	@tests/setup.sh
	@cargo build --release -q -p cli -p harness
	@CARGO_TARGET_DIR=$(abspath $(TARGET)) cargo build --release -q --manifest-path crates/harness/peers/segcache/Cargo.toml || \
	    echo 'skipped: segcache: it cannot be built'
	@cargo run --release -q -p harness --bin bench -- $(ARGS)

lint: toolchain ## Format, clippy, documentation, licences; warnings are errors
	@{ cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 || rustup component add rustfmt clippy
	@$(SUMMARY) begin lint
	@$(SUMMARY) run lint fmt cargo fmt --all --check
	@$(SUMMARY) run lint clippy cargo clippy --release --workspace --all-targets -- -D warnings
	@$(SUMMARY) run lint doc env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps
	@if command -v cargo-deny >/dev/null; then \
	    $(SUMMARY) run lint deny cargo deny check bans licenses sources; \
	else \
	    $(SUMMARY) skip lint deny 'cargo-deny is not installed (cargo install cargo-deny)'; \
	fi
	@$(SUMMARY) end lint

unit: toolchain ## Rust tests of all crates, tidy tests included
	@if command -v cargo-nextest >/dev/null; then \
	    cargo nextest run --release --workspace --no-fail-fast; \
	else \
	    cargo test --release --workspace --no-fail-fast; \
	fi

test-vm: toolchain ## Slow tiers in virtual machines: persistent memory, a NUMA node
	@tests/vm/run.sh

# A build of its own in any case: it has the checks that the product's profile lacks.
shuttle: toolchain ## The store's lock-free steps under generated schedules
	@RUSTFLAGS='$(RUSTFLAGS) --cfg shuttle -C debug-assertions=on -C overflow-checks=on' CARGO_TARGET_DIR=$(TARGET)/shuttle \
	    cargo test --release -p store --lib shuttle

# What is not ours is shared with the other builds.
fuzz: toolchain ## Parsers and the store under libFuzzer; FUZZ_SECONDS=10 for each target, TARGETS=...
	@fuzz/run.sh $(FUZZ_SECONDS) $(TARGETS)

miri: toolchain ## Unsafe modules under Miri, if a nightly has it; MIRI_SECONDS=600 for each crate
	@if cargo +nightly miri --version >/dev/null 2>&1 && \
	    [ -d "$$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then \
	    export CARGO_TARGET_DIR=$(TARGET)/miri; \
	    timeout $(MIRI_SECONDS) cargo +nightly miri test -p media --lib && \
	    timeout $(MIRI_SECONDS) cargo +nightly miri test -p store --lib -- $(MIRI_STORE); \
	else \
	    echo 'skipped: miri: not installed (rustup toolchain install nightly --component miri,rust-src)'; \
	    echo '0 passed, 0 failed, 1 skipped'; \
	fi

fmt: ## Format all Rust sources
	@cargo fmt --all

clean: ## Remove what was built
	@cargo clean

# On a bare Debian as root this installs the C compiler that the zstd library is built with; else it says what to do.
toolchain:
	@command -v cargo >/dev/null || { \
	    echo 'error: cargo is missing'; \
	    echo '  try: install Rust 1.95 or later as https://rustup.rs says'; exit 2; } >&2
	@command -v cc >/dev/null || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qqy build-essential; \
	    else \
	        echo 'error: a C compiler is missing'; \
	        echo '  try: sudo apt-get install build-essential'; exit 2; \
	    fi; } >&2
