# SPDX-License-Identifier: Apache-2.0
# `make demo` and `make test` install all they need on a fresh Debian machine, with root.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
export LC_ALL := C.UTF-8
# Compiled Python is kept: every worker, and every command that a test starts, would compile it again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= /usr/bin/python3
VENV := .venv
BIN := $(VENV)/bin
APT_PACKAGES := python3 python3-venv clang llvm clang-format libbpf1 libbpf-dev linux-libc-dev bpftool iproute2 iptables git graphviz default-jre-headless
# Eight on two cores: tests of the datapath wait for the kernel most of their time.
PYTEST_WORKERS ?= -n 8 --dist worksteal
PYTEST_FLAGS ?=
# A run that hangs all the same is interrupted, so that it still says what it did.
TEST_SECONDS ?= 5400
GUEST ?= 6.1
# State transitions and translations by BPF_PROG_TEST_RUN: no sockets, no clang, no bundle. Of these the guests leave out
# what is marked native: two floods, what compiles C, what loads again and again.
PACKET_TESTS ?= $(wildcard $(addprefix tests/kernel/*/test_,$(addsuffix .py,bed conntrack connection_tables icmp fragments \
	spoofing services service_corners service_errors service_affinity source_ranges hairpin forwarding snat snat_errors \
	host_policy external_clients node_ports forged_errors errors_by_route errors_to_itself service_route)))

# Tests with real packets, which guests run with pods behind netkit.
NETKIT_TESTS ?= tests/kernel/fast_path/netkit_devices.py $(wildcard $(addprefix tests/kernel/*/test_,$(addsuffix .py,wire \
	external_wire external_forwarding forwarding forwarding_out forwarding_wire fragments_wire hairpin host_wire reassembly reject \
	service_forwarding service_wire snat_wire spoofing)))

.PHONY: help install python system demo check test test-all test-kernels kernel-table bench-policy bench-datapath bench-pairs bench-across bench-flows fuzz-parsers guest guest-packets guest-netkit guest-ipvlan lint format grammar prebuilt lock golden wheel clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# Asks apt only for what is missing, so that a second run needs neither network nor root.
define by-apt
@missing=$$(for p in $(1); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
if [ -n "$$missing" ]; then \
	echo "installing system packages:" $$missing; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
fi
endef

python:
	$(call by-apt,python3 python3-venv)

system: python
	$(call by-apt,$(APT_PACKAGES))

$(VENV)/installed: requirements.lock setup.cfg pyproject.toml | python
	@$(PYTHON) -m venv $(VENV)
	@# Not compiled: most of it is never imported, and what is imported is compiled then.
	@$(BIN)/pip install -q --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

install: ## system packages by apt, Python packages into .venv from the lock file
	@$(MAKE) --silent --jobs 2 APT_PACKAGES="$(APT_PACKAGES)" system $(VENV)/installed

demo: install ## compile examples/online-shop, load it in a lab, send traffic, compare
	@$(BIN)/policyc lab -f examples/online-shop/policies --cluster examples/online-shop/cluster

# What traffic is made with, and what it is compared with; what else tests run and look on with.
test test-all bench-datapath: APT_PACKAGES += nginx-light apache2-utils nftables
bench-sockets: APT_PACKAGES += nginx-light apache2-utils redis-server wrk
test test-all: APT_PACKAGES += curl iperf3 bind9-dnsutils iputils-ping traceroute tcpdump
test-all: APT_PACKAGES += chromium golang-go nghttp2-client nodejs postgresql python3-grpcio redis-server wrk

check: install lint ## what needs neither root nor BPF, for a first change: lint, unit and golden tests (two minutes)
	@$(BIN)/pytest $(PYTEST_WORKERS) -m "not slow and not thorough and not kernel" tests/unit tests/golden $(PYTEST_FLAGS)

# One process compiles the tests first: otherwise every worker compiles them.
test: install ## every test that is not marked slow; lint is one of them
	@$(BIN)/pytest --collect-only -qq tests/unit >/dev/null & \
		$(BIN)/pytest --collect-only -qq tests --ignore tests/unit >/dev/null; wait
	@timeout --signal=INT --kill-after=60 $(TEST_SECONDS) $(BIN)/pytest $(PYTEST_WORKERS) -m "not slow" $(PYTEST_FLAGS)

test-all: install ## every test, and every property on all its examples
	@POLICYC_TESTS_AT_LENGTH=1 $(BIN)/pytest $(PYTEST_WORKERS) $(PYTEST_FLAGS)

test-kernels: install ## every bundle of the corpus loaded on this kernel, 6.1 and 6.12, within its bounds (minutes)
	@$(BIN)/python -m tests.kernel_corpus.run

kernel-table: install ## record what test-kernels compares with: docs/verifier-budget.md and its bounds
	@$(BIN)/python -m tests.kernel_corpus.run --record

guest: install ## the example's lab under Debian's kernel GUEST=6.1 or 6.12, in QEMU (a minute, fetches a kernel)
	@tests/guest/run.sh $(GUEST) $(BIN)/policyc lab -f examples/online-shop/policies --cluster examples/online-shop/cluster

guest-packets: install ## the packet tests, but those marked native, under Debian's kernel GUEST=6.1 or 6.12, in QEMU (half an hour)
	@mkdir -p build/guest/objects
	@$(BIN)/python -c 'import pathlib, tests.kernel.support.objects as t; t.compile_objects(pathlib.Path("build/guest/objects"))'
	@GUEST_SECONDS=7200 tests/guest/run.sh $(GUEST) env POLICYC_TEST_OBJECTS=$(CURDIR)/build/guest/objects \
		$(BIN)/pytest -q -n 0 -p no:cacheprovider --timeout 1800 -m "not native" \
		-o tmp_path_retention_policy=failed $(PYTEST_FLAGS) $(PACKET_TESTS)

guest-netkit: install ## the tests with real packets, and pods behind netkit, under Debian's kernel 6.12, in QEMU (an hour)
	@mkdir -p build/guest/objects
	@$(BIN)/python -c 'import pathlib, tests.kernel.support.objects as t; t.compile_objects(pathlib.Path("build/guest/objects"))'
	@GUEST_SECONDS=7200 tests/guest/run.sh 6.12 env POLICYC_TEST_OBJECTS=$(CURDIR)/build/guest/objects POLICYC_TEST_PODS=netkit \
		$(BIN)/pytest -q -n 0 -p no:cacheprovider --timeout 1800 -m "not native" \
		-o tmp_path_retention_policy=failed $(PYTEST_FLAGS) $(NETKIT_TESTS)

guest-ipvlan: install ## pods on ipvlan devices under Debian's kernel 6.12, in QEMU (minutes)
	@rm -rf build/guest/slaves
	@mkdir -p build/guest/objects
	@$(BIN)/python -c 'import pathlib, tests.kernel.ipvlan.bed as t; t.make_bundles(pathlib.Path("build/guest/slaves"))'
	@$(BIN)/python -c 'import pathlib, tests.kernel.support.objects as t; t.compile_objects(pathlib.Path("build/guest/objects"))'
	@GUEST_SECONDS=3600 tests/guest/run.sh 6.12 env POLICYC_TEST_IPVLAN=$(CURDIR)/build/guest/slaves \
		POLICYC_TEST_OBJECTS=$(CURDIR)/build/guest/objects \
		$(BIN)/pytest -q -n 0 -p no:cacheprovider --timeout 1800 -o tmp_path_retention_policy=failed $(PYTEST_FLAGS) \
		$(addprefix tests/kernel/ipvlan/,$(addsuffix .py,test_slave_traffic test_forged_by_slaves forged_past_hooks test_slave_loads slave_devices))

bench-policy: install ## verdict ns over rules, for both backends and the builds they are compared with (a quiet machine, root)
	@$(BIN)/python tests/bench/policy.py --json docs/benchmarks/policy.json --plot docs/benchmarks/policy

bench-datapath: install ## CPU of traffic between two pods over plain routing, beside iptables and nftables (a quiet machine, root)
	@$(BIN)/python tests/bench/datapath.py --json docs/benchmarks/datapath.json --plot docs/benchmarks/datapath

bench-sockets: install ## CPU of TCP between two pods by message size, with a bypass of the stack and without; OTHER=FOLDER adds another bypass (a quiet machine, root)
	@$(BIN)/python tests/bench/sockets.py $(if $(OTHER),--other $(OTHER)) --json docs/benchmarks/sockets.json --plot docs/benchmarks/sockets

bench-pairs: install ## instructions of traffic behind veth and netkit over plain routing, under Debian's kernel 6.12, in QEMU (ten minutes)
	@rm -rf build/guest/pairs
	@$(BIN)/python tests/bench/pairs.py prepare build/guest/pairs
	@GUEST_COUNTS=1 GUEST_SECONDS=3600 tests/guest/run.sh 6.12 $(BIN)/python tests/bench/pairs.py measure build/guest/pairs \
		--json /run/out/pairs.json --table /run/out/pairs.md
	@cp build/guest/6.12/out/pairs.json build/guest/6.12/out/pairs.md docs/benchmarks/

bench-across: install ## CPU of traffic between two nodes over plain routing, and of a node port whose endpoint is on the other one (a quiet machine, root)
	@$(BIN)/python tests/bench/across.py --json docs/benchmarks/across.json --markdown docs/benchmarks/across.md

bench-flows: install ## 100,000 connections beside floods of first packets: what goes on, what it costs, what memory it takes (root)
	@PYTHONPATH=. $(BIN)/python tests/bench/flows.py

# Each parser for so many seconds; what is found on the way is in build/fuzz, an input that breaks one beside it.
PARSER_SECONDS ?= 60
fuzz-parsers: install ## coverage-guided runs of the parsers, PARSER_SECONDS=60 each (tests/fuzz/targets.py)
	@for target in $$(ls tests/fuzz/corpus); do \
		mkdir -p build/fuzz/$$target; \
		echo "fuzzing $$target"; \
		$(BIN)/python -m tests.fuzz.run $$target build/fuzz/$$target tests/fuzz/corpus/$$target -timeout=30 \
			-max_total_time=$(PARSER_SECONDS) -verbosity=0 -print_final_stats=1 -artifact_prefix=build/fuzz/broken-$$target-; \
	done

lint: install ## pre-commit over every file: ruff, mypy --strict, import-linter, clang-format, headers
	@$(BIN)/pre-commit run --all-files --show-diff-on-failure --color never >build-lint.log 2>&1 \
		&& rm -f build-lint.log || { cat build-lint.log; rm -f build-lint.log; exit 1; }

format: install ## rewrite Python and C in the project's format
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .
	@git ls-files 'runtime/datapath/*.[ch]' | xargs -r clang-format -i

golden: install ## rewrite the golden files from what the compiler emits now
	@$(BIN)/pytest -q tests/golden --update-golden

grammar: install ## generate grammar/generated from the ANTLR grammars (fetches ANTLR once)
	@$(BIN)/python tools/grammar.py

prebuilt: install ## make backends/llvm/prebuilt, for machines without clang, from runtime/datapath
	@$(BIN)/python tools/prebuilt.py

lock: install ## resolve the dependencies of setup.cfg into requirements.lock
	@$(BIN)/pip-compile -q --all-extras --generate-hashes --allow-unsafe --strip-extras \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header \
		-o requirements.lock setup.cfg

wheel: install ## build the wheels of policyc and policyc-node into dist/
	@$(BIN)/python tools/wheels.py

clean: ## remove what the build made
	@rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
