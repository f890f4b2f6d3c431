"""
Required inputs: the round's config.yaml, every record that the plan asks for, and the certificates
and spot checks of its cases; and what else its numbers depend on, to be listed: calibrations, peaks.yaml, manifests.

Outputs: measurements.tsv.gz (a row for each repetition), searches.tsv (a row for each
try, where the largest size is searched), parity.tsv (the settings that the processes reported), certificates.tsv and checks.tsv (a row for each tier), SHA256SUMS (the files that its numbers
depend on), cells.tsv (a row for each case and metric: median, interval, speed-up, certificate,
flags; and the rows of tables that are derived from these). Of a round that infers also latencies.tsv.gz (a row for each repetition: all latencies), of
one that trains to a quality also curves.tsv.gz (a row for each test).

1. merge reads and checks records and certificates. It stops if one disagrees with its path.
2. cells summarises them; all tables, figures and the report are made from that.
"""


rule merge:
    input:
        calibrations,
        **steps.MERGE.inputs(RESULTS, CASES),
        peaks=f"{RESULTS}/{names.PEAKS}",
        manifests=data_of_round,
        records=records,
        searches=searches,
        certificates=certificates_of,
        checks=spot_checks,
    output:
        **steps.MERGE.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/merge.log",
    localrule: True
    params:
        **steps.MERGE.params(RESULTS, CASES),
    shell:
        PYTHON + steps.MERGE.command(CASES) + " > {log:q} 2>&1"


rule cells:
    input:
        **steps.CELLS.inputs(RESULTS, CASES),
    output:
        **steps.CELLS.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/cells.log",
    localrule: True
    shell:
        PYTHON + steps.CELLS.command(CASES) + " > {log:q} 2>&1"
