"""
Required inputs: the round's config.yaml and every record that the plan asks for.

Outputs: measurements.tsv.gz (a row a repetition), parity.tsv (what the processes reported of
themselves), cells.tsv (a row a case: median, interval, speed-up, flags).

1. merge reads and checks the records; one that is not what its path says stops it.
2. cells summarises them; all tables, figures and the report start from there.
"""


rule merge:
    input:
        config=f"{RESULTS}/config.yaml",
        records=records,
    output:
        measurements=f"{RESULTS}/measurements.tsv.gz",
        parity=f"{RESULTS}/parity.tsv",
    log:
        f"{RESULTS}/logs/merge.log",
    localrule: True
    params:
        runs=f"{RESULTS}/runs",  # the records are found there: thousands do not fit a command line
    shell:
        "{PYTHON:q} -m dlperf.analysis merge --config {input.config:q} --runs {params.runs:q}"
        " --measurements {output.measurements:q} --parity {output.parity:q} > {log:q} 2>&1"


rule cells:
    input:
        f"{RESULTS}/measurements.tsv.gz",
    output:
        f"{RESULTS}/cells.tsv",
    log:
        f"{RESULTS}/logs/cells.log",
    localrule: True
    shell:
        "{PYTHON:q} -m dlperf.analysis cells --measurements {input:q} --out {output:q} > {log:q} 2>&1"
