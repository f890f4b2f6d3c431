"""
Required inputs: measurements.tsv.gz, which names the devices; config/peaks.yaml; the calibrations
of the round's nodes (rules/screen.smk); cells.tsv, whose steps are compared with limits.

Outputs: limits.tsv, the peak of one device as its manufacturer states it and as it was measured.
`cells` shows MFU relative to both. roofline.tsv, steps of workloads that count their kernels beside
what arithmetic and memory allow. peaks.yaml, the round's own copy of config/peaks.yaml, which
SHA256SUMS lists because numbers depend on it.
"""


rule peaks:
    input:
        str(project.own("config/peaks.yaml")),
    output:
        f"{RESULTS}/peaks.yaml",
    log:
        f"{RESULTS}/logs/peaks.log",
    localrule: True
    shell:
        "cp {input:q} {output:q} 2> {log:q}"


rule limits:
    input:
        calibrations,
        config=f"{RESULTS}/config.yaml",
        measurements=f"{RESULTS}/measurements.tsv.gz",
        peaks=f"{RESULTS}/peaks.yaml",
    output:
        f"{RESULTS}/limits.tsv",
    log:
        f"{RESULTS}/logs/limits.log",
    localrule: True
    params:
        nodes=f"{RESULTS}/nodes",
    shell:
        PYTHON + " -m dlperf.analysis limits --config {input.config:q}"
        " --measurements {input.measurements:q} --nodes {params.nodes:q}"
        " --peaks {input.peaks:q} --out {output:q} > {log:q} 2>&1"


rule roofline:
    input:
        cells=f"{RESULTS}/cells.tsv",
        measurements=f"{RESULTS}/measurements.tsv.gz",
        limits=f"{RESULTS}/limits.tsv",
    output:
        f"{RESULTS}/roofline.tsv",
    log:
        f"{RESULTS}/logs/roofline.log",
    localrule: True
    shell:
        PYTHON + " -m dlperf.analysis roofline --cells {input.cells:q}"
        " --measurements {input.measurements:q} --limits {input.limits:q} --out {output:q}"
        " > {log:q} 2>&1"
