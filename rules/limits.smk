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
        f"{RESULTS}/{names.PEAKS}",
    log:
        f"{RESULTS}/logs/peaks.log",
    localrule: True
    shell:
        "cp {input:q} {output:q} 2> {log:q}"


rule limits:
    input:
        calibrations,
        **steps.LIMITS.inputs(RESULTS, CASES),
    output:
        **steps.LIMITS.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/limits.log",
    localrule: True
    params:
        **steps.LIMITS.params(RESULTS, CASES),
    shell:
        PYTHON + steps.LIMITS.command(CASES) + " > {log:q} 2>&1"


rule roofline:
    input:
        **steps.ROOFLINE.inputs(RESULTS, CASES),
    output:
        **steps.ROOFLINE.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/roofline.log",
    localrule: True
    shell:
        PYTHON + steps.ROOFLINE.command(CASES) + " > {log:q} 2>&1"
