"""
Required inputs: config/published/<name>.yaml and the CSV files that it names, but no measurements.
Each YAML file there is a publication.

Outputs: results/imported-<name>/ with records of kind `imported`, measurements.tsv.gz, cells.tsv,
values.tsv (other figures than throughput), tables/, figures/ and report.html, made by the same code
as for a measured round; results/imported/ with every published ratio computed again and the list of
contradictions.

`replay` makes all of them. They are not part of `all`, but the report of a round that names some
under `beside` shows their cells.
"""

import re

IMPORTED = "results/imported-{published}"
# Those of the working folder, if it has some, or the project's own.
FOLDER = project.find("config/published")
PUBLISHED_NAME = "[A-Za-z0-9][A-Za-z0-9._-]*"
# Each YAML file there is a publication. (`speedups` refuses one with another name.)
PUBLISHED = sorted(
    path.stem for path in FOLDER.glob("*.yaml") if re.fullmatch(PUBLISHED_NAME, path.stem)
)


def published(name):
    """The YAML file of an imported round."""
    return project.find(f"config/published/{name}.yaml")


def publication(name):
    """The config of an imported round; None of a wrong one: the job that reads it says why.

    Its YAML file is read only if a target needs it.
    """
    from dlperf.analysis.publications import config as imports

    try:
        return imports.load(published(name))
    except plan.ConfigError:
        return None


def tables_of(*names):
    """The CSV files of these publications."""
    found = [publication(name) for name in names]
    return [str(project.find(file)) for each in found if each for file in each.files]


def compared_with(wildcards):
    """The files that the page of a publication is made from: its own, and those that other
    publications of the same publisher have, if they can be read."""
    own = publication(wildcards.published)
    found = [str(published(wildcards.published)), *tables_of(wildcards.published)]
    for name in PUBLISHED if own and own.publisher else []:
        other = publication(name)
        if other and other.publisher == own.publisher and other.round != own.round:
            found += [str(published(name)), *tables_of(name)]
    return [*filter(os.path.exists, found), *known_contradictions()]


def known_contradictions():
    """The list of what tables do not show, if the folder has one."""
    known = FOLDER / "known-contradictions.csv"
    return [str(known)] if known.exists() else []


wildcard_constraints:
    published=PUBLISHED_NAME,


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
        compared_with=compared_with,
    output:
        page=f"{IMPORTED}/report.html",
        tables=directory(f"{IMPORTED}/tables"),
        figures=directory(f"{IMPORTED}/figures"),
    log:
        f"{IMPORTED}/logs/replay.log",
    localrule: True
    params:
        **steps.REPLAY.params(IMPORTED, ()),
        published=str(FOLDER),
    shell:
        PYTHON + steps.REPLAY.command(()) + " > {log:q} 2>&1"


rule speedups:
    input:
        sorted(map(str, FOLDER.glob("*.yaml"))),
        known_contradictions(),
        lambda wildcards: tables_of(*PUBLISHED),
    output:
        **steps.SPEEDUPS.outputs("results/imported", ()),
    log:
        "results/imported/speedups.log",
    localrule: True
    params:
        **steps.SPEEDUPS.params("results/imported", ()),
        published=str(FOLDER),
    shell:
        PYTHON + steps.SPEEDUPS.command(()) + " > {log:q} 2>&1"
