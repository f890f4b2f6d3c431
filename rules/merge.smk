"""
Required inputs: the round's config.yaml, every record that the plan asks for, and the certificates
of its cases; and what else its numbers depend on, to be listed: calibrations, peaks.yaml, manifests.

Outputs: measurements.tsv.gz (a row for each repetition), searches.tsv (a row for each
try, where the largest size is searched), parity.tsv (the settings that the processes reported), certificates.tsv (a row for each tier), SHA256SUMS (the files that its numbers
depend on), cells.tsv (a row for each case and metric: median, interval, speed-up, certificate,
flags). Of a round that infers also latencies.tsv.gz (a row for each repetition: all latencies), of
one that trains to a quality also curves.tsv.gz (a row for each test).

1. merge reads and checks records and certificates. It stops if one disagrees with its path.
2. cells summarises them; all tables, figures and the report are made from that.
"""

LATENCIES = [f"{RESULTS}/{names.LATENCIES}"] if names.have_latencies(CASES) else []
CURVES = [f"{RESULTS}/{names.CURVES}"] if names.have_curves(CASES) else []


rule merge:
    input:
        calibrations,
        config=f"{RESULTS}/config.yaml",
        peaks=f"{RESULTS}/peaks.yaml",
        manifests=data_of_round,
        records=records,
        searches=searches,
        certificates=certificates_of,
    output:
        **({"searches": f"{RESULTS}/searches.tsv"} if SEARCHED else {}),
        measurements=f"{RESULTS}/measurements.tsv.gz",
        parity=f"{RESULTS}/parity.tsv",
        certificates=f"{RESULTS}/certificates.tsv",
        sums=f"{RESULTS}/SHA256SUMS",
        latencies=LATENCIES,
        curves=CURVES,
    log:
        f"{RESULTS}/logs/merge.log",
    localrule: True
    params:
        runs=f"{RESULTS}/runs",  # a folder, as thousands of records do not fit on a command line
        shared="results",  # the folder of the certificates
        more=[f"--latencies={path}" for path in LATENCIES]
        + [f"--curves={path}" for path in CURVES]
        + [f"--searches={RESULTS}/searches.tsv" for _ in SEARCHED[:1]],
    shell:
        PYTHON + " -m dlperf.analysis merge --config {input.config:q} --runs {params.runs:q}"
        " --shared {params.shared:q} --measurements {output.measurements:q}"
        " --parity {output.parity:q} --certificates {output.certificates:q} --sums {output.sums:q}"
        " {params.more:q}"
        " > {log:q} 2>&1"


rule cells:
    input:
        measurements=f"{RESULTS}/measurements.tsv.gz",
        certificates=f"{RESULTS}/certificates.tsv",
        limits=f"{RESULTS}/limits.tsv",
    output:
        f"{RESULTS}/cells.tsv",
    log:
        f"{RESULTS}/logs/cells.log",
    localrule: True
    shell:
        PYTHON + " -m dlperf.analysis cells --measurements {input.measurements:q}"
        " --certificates {input.certificates:q} --limits {input.limits:q} --out {output:q}"
        " > {log:q} 2>&1"
