# Everything happens in .venv; it needs Python 3.10 or newer with venv and pip, and nothing else.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: check test bench bench-sweep format clean

check: .venv/for-users  ## run the doctor on this machine, and on the dataset that comes along
	$(BIN)/dl-doctor check -v $(if $(wildcard .venv-torch/ready),--example --python .venv-torch/bin/python)

test: .venv/for-tests .venv-torch/ready  ## the parallel tests, then those that measure, alone
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not alone"
	$(BIN)/python -m pytest -m alone

bench: .venv/for-tests .venv-torch/ready  ## the doctor's speed beside importing torch
	$(BIN)/python -m tests.bench.speed

bench-sweep: .venv/for-tests .venv-torch/ready  ## what the sweep recommends beside a grid and rules of thumb: an hour, alone
	.venv-torch/bin/python -m pip install --quiet pillow
	$(BIN)/python -m tests.bench.sweep

format: .venv/for-tests
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

.venv-torch/ready:  # a job's environment, apart from the doctor's: it is examined, never imported
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet torch==2.13.0 numpy h5py lmdb
	touch $@

clean:  ## what builds leave behind, and the environment
	rm -rf build *.egg-info .venv .venv-torch

.venv/for-users: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/for-tests: .venv/for-users
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@
