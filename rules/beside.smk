"""
Required inputs: cells.tsv, measurements.tsv.gz and parity.tsv of the round, and what its config names
under `beside`: imported rounds, whose cells are made here, and other rounds, which must exist.

Outputs: beside.tsv, a row for each of their cells with a verdict, of a round whose config names any;
figures/beside-<name>, the verdicts beside each of them, as SVG and PNG, on request as PDF;
beside/<round>/ with copies of another round's tables, so that the round can be archived and audited
without the other one.
"""

from dlperf.analysis.compare import rounds as rounds_beside

COPIED = f"{RESULTS}/{names.BESIDE}/{{other}}"
VERDICTS = [f"{RESULTS}/{names.VERDICTS}"] if CONFIG.beside else []
BESIDE_FIGURE = steps.BESIDE_FIGURE.outputs(RESULTS, CASES)  # the files of one


def found_beside():
    """{what a round in `beside` is called: its folder}; without what is copied here already and is
    there no longer."""
    found = {}
    for entry in ROUNDS_BESIDE:
        name = plan.label_beside(entry)
        copies = [COPIED.format(other=name) + f"/{each}" for each in rounds_beside.FILES]
        try:
            found[name] = rounds_beside.find(entry, own=ROUND, key="beside")
        except LookupError as error:
            if not all(map(os.path.exists, copies)):
                raise WorkflowError(f"{SOURCE}: {error.args[0]}") from None
    return found


FOUND_BESIDE = found_beside()


def round_beside(wildcards):
    """The tables of another round that are copied."""
    folder = FOUND_BESIDE.get(wildcards.other)
    return [folder / name for name in rounds_beside.FILES] if folder else []


def published_beside():
    """The folders of the publications."""
    published = [entry for entry in CONFIG.beside if entry not in ROUNDS_BESIDE]
    return [f"results/imported-{name}" for name in published]


def cells_beside(wildcards):
    """What the verdicts rest on beside the round's own cells."""
    copies = [COPIED.format(other=plan.label_beside(entry)) for entry in ROUNDS_BESIDE]
    found = [f"{folder}/cells.tsv" for folder in published_beside() + copies]
    return found + [f"{folder}/values.tsv" for folder in published_beside()]


wildcard_constraints:
    other="[A-Za-z0-9][A-Za-z0-9._-]*",


rule round_beside:
    input:
        round_beside,
    output:
        [f"{COPIED}/{name}" for name in rounds_beside.FILES],
    log:
        f"{RESULTS}/logs/beside/{{other}}.log",
    localrule: True
    params:
        folder=COPIED,
    shell:
        "cp {input:q} {params.folder:q}/ > {log:q} 2>&1"


rule verdicts:
    input:
        **steps.BESIDE.inputs(RESULTS, CASES),
        beside=cells_beside,
    output:
        **steps.BESIDE.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/beside.log",
    localrule: True
    params:
        **steps.BESIDE.params(RESULTS, CASES),
    shell:
        PYTHON + steps.BESIDE.command(CASES) + " > {log:q} 2>&1"


rule beside_figure:
    input:
        **steps.BESIDE_FIGURE.inputs(RESULTS, CASES),
    output:
        svg=report(
            BESIDE_FIGURE["svg"],
            caption="../report/figure-beside.rst",
            category="Figures",
            labels={"figure": "beside {other}"},
        ),
        png=BESIDE_FIGURE["png"],
    log:
        f"{RESULTS}/logs/figures/beside-{{other}}.log",
    localrule: True
    params:
        **steps.BESIDE_FIGURE.params(RESULTS, CASES),
    shell:
        PYTHON + steps.BESIDE_FIGURE.command(CASES, without=["pdf"]) + " > {log:q} 2>&1"


# Apart, as its fonts take longer than the rest of a figure.
rule beside_figure_pdf:
    input:
        **steps.BESIDE_FIGURE.inputs(RESULTS, CASES),
    output:
        pdf=BESIDE_FIGURE["pdf"],
    log:
        f"{RESULTS}/logs/figures/beside-{{other}}.pdf.log",
    localrule: True
    params:
        **steps.BESIDE_FIGURE.params(RESULTS, CASES),
    shell:
        PYTHON + steps.BESIDE_FIGURE.command(CASES, without=names.DRAWN) + " > {log:q} 2>&1"
