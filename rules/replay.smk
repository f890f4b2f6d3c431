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
    *("dlperf-v1-wide-deep", "dlperf-v1-insightface"),
    *("dlperf-v1-gpt", "dlperf-v1-gpt-zero"),
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
        **steps.IMPORT.params(IMPORTED, ()),
    shell:
        PYTHON + steps.IMPORT.command(()) + " > {log:q} 2>&1"


rule merge_imported:
    input:
        **steps.MERGE.inputs(IMPORTED, ()),
        runs=f"{IMPORTED}/runs",
    output:
        **steps.MERGE.outputs(IMPORTED, ()),
    log:
        f"{IMPORTED}/logs/merge.log",
    localrule: True
    params:
        **steps.MERGE.params(IMPORTED, ()),
    shell:
        PYTHON + steps.MERGE.command(()) + " > {log:q} 2>&1"


rule cells_imported:
    input:
        **steps.CELLS.inputs(IMPORTED, ()),
    output:
        **steps.CELLS.outputs(IMPORTED, ()),
    log:
        f"{IMPORTED}/logs/cells.log",
    localrule: True
    shell:
        PYTHON + steps.CELLS.command(()) + " > {log:q} 2>&1"


rule values_imported:
    input:
        **steps.VALUES.inputs(IMPORTED, ()),
    output:
        **steps.VALUES.outputs(IMPORTED, ()),
    log:
        f"{IMPORTED}/logs/values.log",
    localrule: True
    shell:
        PYTHON + steps.VALUES.command(()) + " > {log:q} 2>&1"


rule replay_round:
    input:
        **steps.REPLAY.inputs(IMPORTED, ()),
    output:
        page=f"{IMPORTED}/report.html",
        tables=directory(f"{IMPORTED}/tables"),
        figures=directory(f"{IMPORTED}/figures"),
    log:
        f"{IMPORTED}/logs/replay.log",
    localrule: True
    params:
        **steps.REPLAY.params(IMPORTED, ()),
        published=OWN,
    shell:
        PYTHON + steps.REPLAY.command(()) + " > {log:q} 2>&1"


rule speedups:
    input:
        [f"{OWN}/{name}.yaml" for name in PUBLISHED],
        f"{OWN}/known-contradictions.csv",
        lambda wildcards: tables_of(*PUBLISHED),
    output:
        **steps.SPEEDUPS.outputs("results/imported", ()),
    log:
        "results/imported/speedups.log",
    localrule: True
    params:
        **steps.SPEEDUPS.params("results/imported", ()),
        published=OWN,
    shell:
        PYTHON + steps.SPEEDUPS.command(()) + " > {log:q} 2>&1"
