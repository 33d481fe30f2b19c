# Two commands matter: `make demo` and `make test`. Both install what they need into .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: core install demo test lint fuzz bench bench-rivals clean faults licences asan sbom hashes check-hashes

core: .venv/core  # what a user needs
install: .venv/installed  # and what a developer needs: Flower, Ray, Sphinx, test tools

.venv/core: pyproject.toml setup.py constraints.txt $(wildcard src/pfedfair/_native/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

.venv/installed: .venv/core
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: core
	$(BIN)/pfedfair reproduce table1 --seeds 3 --out runs/demo

test: lint  # three processes of one thread each: on two cores, as some tests wait for others' processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fuzz: install  # thousands of messy tables; `make test` tries some hundred
	FUZZ_TABLES=2000 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto tests/fuzz

faults: install  # the slow ones as well; writes docs/faults.md from what happened
	OMP_NUM_THREADS=1 $(BIN)/python scripts/faults.py

asan: install  # the libraries in C under the sanitizers of addresses and of undefined behaviour
	PFEDFAIR_SANITIZE=1 $(BIN)/python setup.py -q build_ext --inplace --force
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 \
		$(BIN)/python -m pytest -p no:cacheprovider -q tests/_native; status=$$?; \
		$(BIN)/python setup.py -q build_ext --inplace --force; exit $$status

licences: install
	$(BIN)/python scripts/licences.py

sbom: install .sbom/tried  # bills of materials, CycloneDX, in build/sbom
	$(BIN)/python scripts/sbom.py build/sbom
	.sbom/bin/python scripts/sbom.py --check build/sbom

.sbom/tried:
	$(PYTHON) -m venv .sbom
	.sbom/bin/pip install --quiet 'cyclonedx-python-lib[json-validation]>=11,<12'
	touch $@

hashes: install  # requirements/*.txt, after a change of constraints.txt
	$(BIN)/python scripts/hashes.py

check-hashes: install  # that they are what the index has
	$(BIN)/python scripts/hashes.py --check

bench: install
	$(BIN)/python benchmarks/run.py

RIVALS := $(patsubst benchmarks/environments/%.txt,.rivals/%/tried,$(wildcard benchmarks/environments/*.txt))

bench-rivals: core $(RIVALS)  # other simulators, in .rivals/; what cannot be installed is left out
	$(BIN)/python benchmarks/rivals.py --write docs/speed.md

.rivals/%/tried: benchmarks/environments/%.txt
	$(PYTHON) -m venv .rivals/$*
	-.rivals/$*/bin/pip install --quiet --requirement $<
	-.rivals/$*/bin/pip uninstall --quiet --yes torchvision  # of another build than torch: fails
	touch $@

.PHONY: docs
docs: install  # the pages of docs/, in build/docs/index.html
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs

clean:
	rm -rf .venv .rivals .sbom build runs src/*.egg-info src/pfedfair/_native/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
