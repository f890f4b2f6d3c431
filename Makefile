# The two commands of a fresh machine: `make` and `make test`.
PYTHON ?= python3.11
SNAKEMAKE = .venv/bin/snakemake --profile local
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes

.PHONY: laptop full quick plan test test-full certificates lint clean-results

laptop: .venv/ready       ## set up, measure the laptop round, write results/laptop/report.html
	$(SNAKEMAKE) all

full: .venv/ready         ## the same with all workloads: results/laptop-full/report.html
	$(SNAKEMAKE) --configfile config/rounds/laptop-full.yaml -- all

quick: .venv/ready        ## three frameworks in some minutes
	$(SNAKEMAKE) --configfile config/rounds/quick.yaml -- all

plan: .venv/ready         ## what the laptop round would run, and how long it takes
	$(SNAKEMAKE) plan

test: .venv/ready         ## set up and run the tests
	.venv/bin/python -m pytest tests

test-full: .venv/ready    ## those and the long ones: BERT's whole certificates, more of each framework
	.venv/bin/python -m pytest -m "full or not full" tests

certificates: .venv/ready ## make the certificates that come with the code anew, in certificates/
	$(SNAKEMAKE) --config certificates=remake --configfile config/rounds/released.yaml -- certificates
	PYTHONPATH=scripts .venv/bin/python -m dlperf.certify.released --config config/rounds/released.yaml

lint: .venv/ready         ## formatting, lint, types, the direction of imports
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/mypy
	PYTHONPATH=scripts .venv/bin/lint-imports

report.zip: .venv/ready   ## Snakemake's own report of the laptop round
	$(SNAKEMAKE) --report $@

.venv/ready: envs/workflow.lock.txt
	$(PYTHON) -m venv .venv
	sed -n '/^uv==/,/[^\\]$$/p' $< > .venv/uv.txt
	$(PIP) --no-deps -r .venv/uv.txt
	UV_FIND_LINKS="$$PIP_FIND_LINKS" .venv/bin/uv pip install --quiet --compile-bytecode \
	    --python .venv/bin/python --require-hashes -r $< || $(PIP) -r $<
	touch $@
