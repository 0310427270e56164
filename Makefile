# Two commands make everything: `make sweep` and `make test`. `make` alone explains.
#
# The first use makes an environment in .venv and installs the tested versions (constraints.txt) into it. VENV=/path uses
# an environment of your own; if that has a torch already, that torch stays, and its other packages move only where the
# project's lower bounds ask for it.

VENV = .venv
PYTHON = python3
NAME = default
ARGS =
PYTEST_ARGS =
DEVICE = gpu
OUT =

# One stamp for each set of packages. They lie in the environment, so they vanish with it.
RUN = $(VENV)/.crossover-run
TEST = $(VENV)/.crossover-test
CHECK = $(VENV)/.crossover-check
IN_VENV = $(VENV)/bin/python
# gpu-check installs nothing: it takes the environment where there is one, or the Python that is named.
CHECKING = $(if $(and $(filter file,$(origin PYTHON)),$(wildcard $(IN_VENV))),$(IN_VENV),$(PYTHON))
PIP_INSTALL = $(IN_VENV) -m pip install --disable-pip-version-check

ifneq ($(words $(CURDIR)),1)
$(error make cannot work under a path with spaces: move this folder, which is now "$(CURDIR)")
endif
ifneq ($(words $(VENV)),1)
$(error VENV is "$(VENV)": it must be one path without spaces)
endif

.DEFAULT_GOAL := help
.PHONY: help sweep test check format clean gpu-check
.NOTPARALLEL:
.DELETE_ON_ERROR:
SHELL := /bin/sh

help:  ## Say what there is
	@echo "usage: make TARGET [VARIABLE=value]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r target text; do \
		printf '  make %-9s %s\n' "$$target" "$$text"; done
	@echo
	@echo "  NAME=tutorial           which sweep (default: default; a name or a YAML file; list: make sweep ARGS=--list)"
	@echo "  ARGS='--set passes=5'   more for sweep.py (all of it: make sweep ARGS=--help)"
	@echo "  PYTEST_ARGS='-k store'  more for pytest"
	@echo "  PYTHON=python3.12       which Python makes the environment (3.11 or newer)"
	@echo "  VENV=/path              an environment of your own; a torch in it is left alone"
	@echo "  DEVICE=cpu OUT=folder   for gpu-check: a rehearsal without a GPU; where its studies go"

sweep: $(RUN)  ## Set up once, then measure, conclude and draw: results/default/report.html
	@$(IN_VENV) sweep.py $(NAME) $(ARGS)

test: $(TEST)  ## Set up once, then run every test
	@$(IN_VENV) -m pytest $(PYTEST_ARGS)

check: $(CHECK)  ## Set up once, then lint, formatting, types, import rules
	@$(VENV)/bin/ruff check
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-logo

gpu-check:  ## Prove the path to a GPU in minutes; installs nothing: PYTHON=python3 needs torch, numpy, pyarrow
	@command -v $(CHECKING) >/dev/null || { echo "There is no $(CHECKING) here: name a Python, PYTHON=/path." >&2; exit 2; }
	@$(CHECKING) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(CHECKING) is `$(CHECKING) -V 2>&1`: 3.11 or newer is needed. Name another: PYTHON=python3.12." >&2; exit 2; }
	@$(CHECKING) -m runner.check --device $(DEVICE) $(if $(OUT),--out '$(OUT)')

format: $(CHECK)  ## Set up once, then format the code and mend what lint can mend
	@$(VENV)/bin/ruff check --fix-only --quiet
	@$(VENV)/bin/ruff format

clean:  ## Remove .venv and what tools left; results/ stays
	rm -rf .venv build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --------------------------------------------------------------------------------------------------------- setting up

# A torch that came with the user's own VENV is kept by making it the only constraint; else the tested pins hold.
ifeq ($(origin VENV),file)
constraint = cp constraints.txt $(1)
else
constraint = $(IN_VENV) -c "from importlib.metadata import version; print('torch==' + version('torch'))" \
	>$(1) 2>/dev/null && echo "Keeping `cat $(1)` of $(VENV)." || cp constraints.txt $(1)
endif

define install
	@$(IN_VENV) -m pip --version >/dev/null 2>&1 || { \
		echo "$(VENV) has no pip: run '$(IN_VENV) -m ensurepip' and try again." >&2; exit 2; }
	@$(call constraint,$@.constraint)
	@echo "Installing into $(VENV). The first time takes minutes: torch and Ray are large."
	@$(PIP_INSTALL) --quiet --quiet --constraint $@.constraint --editable '.$(1)' || { \
		echo "Installing failed. To see all that pip says: $(PIP_INSTALL) -c $@.constraint -e '.$(1)'" >&2; exit 2; }
	@rm -f $@.constraint
	@touch $(RUN) $@
endef

$(RUN): pyproject.toml constraints.txt | $(IN_VENV)
	$(call install,)

$(TEST): pyproject.toml constraints.txt | $(IN_VENV)
	$(call install,[test])

$(CHECK): pyproject.toml constraints.txt | $(IN_VENV)
	$(call install,[check])

$(IN_VENV):
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no $(PYTHON) here: install Python 3.11 or newer, or name one: PYTHON=/path/to/python3." >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is `$(PYTHON) -V 2>&1`: 3.11 or newer is needed. Name another: PYTHON=python3.12." >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make environments. On Debian and Ubuntu: apt-get install python3-venv." >&2; exit 2; }
	@echo "Making an environment in $(VENV)."
	@$(PYTHON) -m venv $(VENV)
