"""
Required inputs: cells.tsv, measurements.tsv.gz for tables.md, latencies.tsv.gz for the figure of
their distribution, and curves.tsv.gz for that of runs of the quality scenario.

Outputs: a table for each workload, scenario, precision and batch size, with a row for each topology
and layout, as TSV, Markdown and HTML; and for each table a figure of throughput, one of scaling, one
of layouts and one of how latencies are distributed, as SVG and PNG. The plan gives their names. On
request, the same for another metric: tables/<table>-memory.md, figures/<table>-step_time.svg; and any
figure as PDF. tables.md has all tables in one file, for a
README.

`figures` makes all figures of a round in one job, which reads cells.tsv and imports Matplotlib once.
Of a round that has figures, it makes those that are not there, and those that are older than the
cells. A figure that the command line names has a job of its own (`figure`).
"""

TABLES = names.table_ids(CASES)
FIGURES = names.figure_ids(CASES)
OTHERS = names.of_other_metrics(CASES)  # made on request
FIGURES_BESIDE = list(verdicts.figures(CONFIG.beside))  # beside.smk has their rules
# the files of one
TABLE = steps.TABLE.outputs(RESULTS, CASES)
FIGURE = steps.FIGURE.outputs(RESULTS, CASES)
LATENCIES = [f"{RESULTS}/{names.LATENCIES}"] if names.have_latencies(CASES) else []
CURVES = [f"{RESULTS}/{names.CURVES}"] if names.have_curves(CASES) else []

# A name that is not in the plan is reported immediately, with the nearest one. (Snakemake knows its
# targets only after parsing, and would only say that no rule makes the file.)
for target in sys.argv[1:]:
    folder, _, name = target.removeprefix(f"{RESULTS}/").partition("/")
    known = {"tables": TABLES + OTHERS, "figures": FIGURES + OTHERS + FIGURES_BESIDE}.get(folder)
    if known and name:  # else a rule: `figures`
        try:
            names.known(name.rpartition(".")[0], known, folder[:-1])
        except LookupError as error:
            raise WorkflowError(f"{target}: {error.args[0]}") from None


def beside_cells(wildcards):
    """What a figure is drawn from and finds beside the cells."""
    kind = wildcards.figure.rpartition("-")[2]
    return {names.ECDF: LATENCIES, names.CURVE: CURVES}.get(kind, [])


def caption_of(figure):
    """The file of a figure's caption in Snakemake's own report."""
    kind = "over" if "-over-" in figure else figure.rpartition("-")[2]
    kinds = ("over", names.SCALING, names.LAYOUTS, names.ECDF)
    return f"../report/figure-{kind}.rst" if kind in kinds else "../report/figure.rst"


wildcard_constraints:
    table="|".join(TABLES + OTHERS),
    figure="|".join(FIGURES + OTHERS),


rule table:
    input:
        **steps.TABLE.inputs(RESULTS, CASES),
    output:
        tsv=TABLE["tsv"],
        md=TABLE["md"],
        html=report(
            TABLE["html"],
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    localrule: True
    shell:
        PYTHON + steps.TABLE.command(CASES) + " > {log:q} 2>&1"


rule tables_markdown:
    input:
        **steps.MARKDOWN.inputs(RESULTS, CASES),
    output:
        **steps.MARKDOWN.outputs(RESULTS, CASES),
    log:
        f"{RESULTS}/logs/tables.log",
    localrule: True
    shell:
        PYTHON + steps.MARKDOWN.command(CASES) + " > {log:q} 2>&1"


rule figure:
    input:
        **steps.FIGURE.inputs(RESULTS, CASES),
        more=beside_cells,
    output:
        svg=report(
            FIGURE["svg"],
            caption="../report/figure.rst",  # of what is made on request
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        png=FIGURE["png"],
    log:
        f"{RESULTS}/logs/figures/{{figure}}.log",
    localrule: True
    shell:
        PYTHON + steps.FIGURE.command(CASES, without=["pdf"]) + " > {log:q} 2>&1"


# Apart, as its fonts take longer than the rest of a figure.
rule figure_pdf:
    input:
        **steps.FIGURE.inputs(RESULTS, CASES),
        more=beside_cells,
    output:
        pdf=FIGURE["pdf"],
    log:
        f"{RESULTS}/logs/figures/{{figure}}.pdf.log",
    localrule: True
    shell:
        PYTHON + steps.FIGURE.command(CASES, without=names.DRAWN) + " > {log:q} 2>&1"


def in_report(figure):
    """The SVG file of a figure, which Snakemake's own report shows."""
    path, labels = FIGURE["svg"].format(figure=figure), {"figure": figure}
    return report(path, caption=caption_of(figure), category="Figures", labels=labels)


def drawn(figures):
    """The outputs of a job that draws these figures: the files of each that are always made."""
    png = [FIGURE["png"].format(figure=figure) for figure in figures]
    return {"svg": list(map(in_report, figures)), "png": png}


def is_missing(figure):
    return not all(os.path.exists(FIGURE[kind].format(figure=figure)) for kind in names.DRAWN)


# A job makes all its outputs again, so figures that are not there have a job of their own: the
# others are drawn again only when their cells are newer. (The names of more figures than any round
# had so far do not fit on a command line: then one job draws all.)
ARE_MANY = sum(len(FIGURE["svg"]) + len(name) for name in FIGURES) > 100_000
MISSING = [name for name in FIGURES if ARE_MANY or is_missing(name)]


rule missing_figures:
    input:
        **steps.FIGURES.inputs(RESULTS, CASES),
    output:
        **drawn(MISSING),
    log:
        f"{RESULTS}/logs/missing_figures.log",
    localrule: True
    shell:
        PYTHON
        + steps.FIGURES.command(CASES, without=["only"])
        + ("" if ARE_MANY else " --only {output.svg:q}")
        + " > {log:q} 2>&1"


use rule missing_figures as stale_figures with:
    output:
        **drawn([name for name in FIGURES if name not in MISSING]),
    log:
        f"{RESULTS}/logs/stale_figures.log",


rule figures:
    input:
        **drawn(FIGURES),
    localrule: True


# Figures that are asked for by name are drawn alone, within seconds. (Without params in either rule,
# so that what one has drawn is not drawn again by the other.)
if any(target.startswith(f"{RESULTS}/figures/") for target in sys.argv[1:]):

    ruleorder: figure > missing_figures > stale_figures

else:

    ruleorder: missing_figures > stale_figures > figure
