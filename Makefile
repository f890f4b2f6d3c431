# The two commands of a fresh machine: `make` and `make test`.
PYTHON ?= python3.11
SNAKEMAKE = .venv/bin/snakemake --profile local
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes

.PHONY: laptop full quick plan test test-full certificates lint clean-results

laptop: .venv/ready       ## set up, measure the laptop round, write results/laptop/report.html
	$(SNAKEMAKE) all

full: .venv/ready         ## measure all workloads, write results/laptop-full/report.html
	$(SNAKEMAKE) --configfile config/rounds/laptop-full.yaml -- all

quick: .venv/ready        ## measure three frameworks, in a few minutes
	$(SNAKEMAKE) --configfile config/rounds/quick.yaml -- all

plan: .venv/ready         ## show what the laptop round would run, and how long it takes
	$(SNAKEMAKE) plan

# The folders of the longest files first, so that short ones fill the time at the end.
LONGEST = $(addprefix tests/,certificates browser slurm workflow frameworks)
OTHERS = $(filter-out $(LONGEST) tests/stopwatch tests/support tests/__pycache__,\
    $(patsubst %/,%,$(wildcard tests/*/)))

test: .venv/ready         ## set up and run the tests: two files at a time, those of the stopwatch alone
	.venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(LONGEST) $(OTHERS)
	.venv/bin/python -m pytest tests/stopwatch

test-full: .venv/ready    ## run the long tests too: BERT's whole certificates, more of each framework
	.venv/bin/python -m pytest -m "full or not full" tests

certificates: .venv/ready ## make the certificates that come with the code again, in certificates/
	$(SNAKEMAKE) --config certificates=remake --configfile config/rounds/released.yaml -- certificates
	PYTHONPATH=scripts .venv/bin/python -m dlperf.certify.released --config config/rounds/released.yaml

lint: .venv/ready         ## check formatting, lint, types and the direction of imports
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/snakefmt --check Snakefile rules
	.venv/bin/mypy
	PYTHONPATH=scripts .venv/bin/lint-imports

report.zip: .venv/ready   ## make Snakemake's own report of the laptop round
	$(SNAKEMAKE) --report $@

.venv/ready: envs/workflow.lock.txt
	@command -v $(PYTHON) >/dev/null || command -v uv >/dev/null || { \
	    echo "error: neither $(PYTHON) nor uv is on PATH. Install Python 3.11, or uv, which fetches it" >&2; \
	    echo "(pip install uv); another Python 3.11: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	if command -v $(PYTHON) >/dev/null; then $(PYTHON) -m venv .venv; \
	    else uv venv --quiet --clear --seed --python 3.11 .venv; fi
	sed -n '/^uv==/,/[^\\]$$/p' $< > .venv/uv.txt
	$(PIP) --no-deps -r .venv/uv.txt
	UV_FIND_LINKS="$$PIP_FIND_LINKS" .venv/bin/uv pip install --quiet --compile-bytecode \
	    --python .venv/bin/python --require-hashes -r $< || $(PIP) -r $<
	cp envs/ctrl_c.pth .venv/lib/python3*/site-packages/  # Ctrl-C: a line, while it imports too
	touch $@
