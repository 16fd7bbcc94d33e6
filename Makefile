# Needs Python >= 3.11, make and cc. Everything is installed into .venv, once, and again when pyproject.toml changes.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all onnx targets pythons lint dist site clean

demo: .venv/installed
	$(BIN)/rnncc demo -o build/demo

# Tests start commands by the hundred, which would compile rnncc's own sources each time where
# bytecode is not kept.
test test-all: export PYTHONDONTWRITEBYTECODE =

test: .venv/installed-test
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" --draw

# Every case of every test, of which `make test` draws some where they take long (tests/draw.py).
test-all: .venv/installed-test
	$(BIN)/pytest -n 2 --dist worksteal

# The node tests of the ONNX standard as machine code: passed, skipped (not claimed), failed.
onnx: .venv/installed-test
	$(BIN)/python -m tests.frontends.onnx.official

# All golden nets on every target that something here runs, for about an hour of one core; -rs says
# what is missing for the others.
# Debian: apt-get install qemu-user qemu-system-arm qemu-system-misc wine lld nodejs tcc \
#   gcc-mingw-w64-x86-64 gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf \
#   libc6-dev-armhf-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross gcc-arm-none-eabi \
#   libnewlib-arm-none-eabi; pip install ziglang (riscv32, macOS, Windows on Arm), wasmtime (wasm64
#   and relaxed SIMD, where node is older than 24)
targets: .venv/installed-test
	RNNCC_TARGETS=1 $(BIN)/pytest -n 2 --dist worksteal -rs tests/targets tests/packaging/test_versions.py

# What `make dist` makes, in clean environments of every Python from 3.11 on that is on the path or
# in pyenv; -rs says which are missing. With PyTorch where pip finds a wheel of it without CUDA.
pythons: .venv/installed-test
	RNNCC_PYTHONS=1 $(BIN)/pytest -rs tests/packaging/test_release.py

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyrefly check
	$(BIN)/lint-imports --no-logo

# Wheels and sources of both distributions, into dist/.
dist: .venv/bin/python
	rm -rf dist
	$(BIN)/python -m pip install --quiet build "setuptools>=77"
	$(BIN)/python -m build --no-isolation --outdir dist runtime
	$(BIN)/python -m build --no-isolation --outdir dist .

# The documentation as a site in build/site; fails on warnings.
site: .venv/installed-docs
	$(BIN)/mkdocs build

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rnncc needs Python 3.11 or later; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml runtime/pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable runtime --editable .
	touch $@

.venv/installed-test: pyproject.toml runtime/pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable runtime --editable ".[test]"
	touch $@ .venv/installed

.venv/installed-docs: pyproject.toml | .venv/installed
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $@
