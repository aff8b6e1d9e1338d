# Every target builds what it needs in .venv; PYTHON picks the interpreter that makes it (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

PARTS := $(sort $(patsubst tests/%/,%,$(dir $(wildcard tests/*/test_*.py))))

# Otherwise each worker, and each process that tests start, would compile every file again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo digits test test-top $(PARTS:%=test-%) kernels ptx lint bench packages clean

demo: $(VENV)/examples.stamp  ## Train a small GPT eagerly and jitted, compare, and sample from it; DEVICE=cuda: on a GPU.
	$(BIN)/python examples/train_gpt.py $(if $(DEVICE),--device $(DEVICE))

digits: $(VENV)/examples.stamp  ## Classify handwritten digits.
	$(BIN)/python examples/digits.py

# A process per part: recordings look at all objects there are, and 30,000 tests are a million objects.
test: test-top $(PARTS:%=test-%)  ## Run the whole test suite; make -k test goes on after a part that fails.

test-top: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal -q tests/test_*.py

$(PARTS:%=test-%): test-%: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n 2 --dist worksteal -q tests/$*

kernels: $(VENV)/test.stamp  ## Run every op's kernels for GPUs by Triton's interpreter, compile them (for SECONDS), print the shares.
	$(BIN)/python -m benchmarks.gpu_coverage --cubin $(if $(SECONDS),--seconds $(SECONDS))

ptx: $(VENV)/test.stamp  ## Run the tests that need a GPU on a fake one that executes what Triton compiles; CAPABILITY=sm_80: for another.
	EAGERJIT_TESTS_PTX=$(or $(CAPABILITY),sm_90) $(BIN)/python -m pytest -n 2 -q -m gpu tests/runtime/gpu

lint: $(VENV)/test.stamp  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/mypy eagerjit

bench: $(VENV)/bench.stamp  ## Compare with other libraries; writes benchmarks/results.
	$(BIN)/python -m benchmarks latency eager layers sparse chain train memory coldstart higher_order

packages: $(VENV)/packages.stamp  ## Run packages written for PyTorch, transformers among them, on both and compare.
	$(BIN)/python examples/packages/compare.py

clean:
	rm -rf $(VENV) build dist *.egg-info

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: installed again only when pyproject.toml changes.
$(VENV)/%.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[$*]'
	touch $@
