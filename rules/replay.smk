"""
Required inputs: config/published/<name>.yaml and the CSV files that it names, but no measurements.

Outputs: results/imported-<name>/ with records of kind `imported`, measurements.tsv.gz, cells.tsv,
values.tsv (other figures than throughput), tables/, figures/ and report.html, made by the same code
as for a measured round; results/imported/ with every published ratio computed again and the list of
contradictions.

`replay` makes all of them. They are not part of `all`, but the report of a round that names some
under `beside` shows their cells.
"""

PUBLISHED = (
    *("dlperf-v1", "dlperf-v1-summary", "dlperf-v1-reports"),
    *("dlperf-v1-wide-deep", "dlperf-v1-insightface", "dlperf-v1-gpt"),
    *("nvidia-mxnet-resnet50", "nvidia-electra"),
)
IMPORTED = "results/imported-{published}"
OWN = str(project.own("config/published"))


def published(name):
    """The YAML file of an imported round."""
    return project.find(f"config/published/{name}.yaml")


def tables_of(*names):
    """The CSV files of these. Their YAML files are read only if a target needs them."""
    from dlperf.analysis.publications import config as imports

    try:
        found = [imports.load(published(name)).files for name in names]
    except plan.ConfigError as error:
        raise WorkflowError(str(error)) from None
    return [str(project.find(file)) for files in found for file in files]


def cells_beside(wildcards):
    """The cells of the imported rounds that the report shows beside its own."""
    return [f"results/imported-{name}/cells.tsv" for name in CONFIG.beside]


wildcard_constraints:
    published="[A-Za-z0-9][A-Za-z0-9._-]*",


rule replay:
    input:
        expand(f"{IMPORTED}/report.html", published=PUBLISHED),
        "results/imported/contradictions.md",
    localrule: True


rule import_round:
    input:
        config=lambda wildcards: str(published(wildcards.published)),
        tables=lambda wildcards: tables_of(wildcards.published),
    output:
        config=f"{IMPORTED}/config.yaml",
        runs=directory(f"{IMPORTED}/runs"),
    log:
        f"{IMPORTED}/logs/import.log",
    localrule: True
    params:
        folder=IMPORTED,
    shell:
        PYTHON + " -m dlperf.analysis import --config {input.config:q} --out {params.folder:q}"
        " > {log:q} 2>&1"


rule merge_imported:
    input:
        config=f"{IMPORTED}/config.yaml",
        runs=f"{IMPORTED}/runs",
    output:
        measurements=f"{IMPORTED}/measurements.tsv.gz",
        parity=f"{IMPORTED}/parity.tsv",
        certificates=f"{IMPORTED}/certificates.tsv",
        sums=f"{IMPORTED}/SHA256SUMS",
        cells=f"{IMPORTED}/cells.tsv",
        values=f"{IMPORTED}/values.tsv",
    log:
        f"{IMPORTED}/logs/merge.log",
    localrule: True
    shell:
        "(" + PYTHON + " -m dlperf.analysis merge --config {input.config:q} --runs {input.runs:q}"
        " --shared results --measurements {output.measurements:q} --parity {output.parity:q}"
        " --certificates {output.certificates:q} --sums {output.sums:q}"
        " && " + PYTHON + " -m dlperf.analysis cells --measurements {output.measurements:q}"
        " --certificates {output.certificates:q} --out {output.cells:q}"
        " && "
        + PYTHON
        + " -m dlperf.analysis values --config {input.config:q} --runs {input.runs:q}"
        " --out {output.values:q}) > {log:q} 2>&1"


rule replay_round:
    input:
        cells=f"{IMPORTED}/cells.tsv",
        values=f"{IMPORTED}/values.tsv",
    output:
        page=f"{IMPORTED}/report.html",
        tables=directory(f"{IMPORTED}/tables"),
        figures=directory(f"{IMPORTED}/figures"),
    log:
        f"{IMPORTED}/logs/replay.log",
    localrule: True
    params:
        folder=IMPORTED,
        published=OWN,
    shell:
        PYTHON + " -m dlperf.analysis replay --round {params.folder:q}"
        " --published {params.published:q} > {log:q} 2>&1"


rule speedups:
    input:
        [f"{OWN}/{name}.yaml" for name in PUBLISHED],
        f"{OWN}/known-contradictions.csv",
        lambda wildcards: tables_of(*PUBLISHED),
    output:
        ratios="results/imported/speedups.tsv",
        contradictions="results/imported/contradictions.tsv",
        page="results/imported/contradictions.md",
    log:
        "results/imported/speedups.log",
    localrule: True
    params:
        published=OWN,
    shell:
        PYTHON + " -m dlperf.analysis speedups --published {params.published:q}"
        " --out results/imported > {log:q} 2>&1"
