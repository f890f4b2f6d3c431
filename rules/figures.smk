"""
Required inputs: cells.tsv, measurements.tsv.gz for tables.md, latencies.tsv.gz for the figure of
their distribution, and curves.tsv.gz for that of trainings to a quality.

Outputs: a table for each workload, scenario, precision and batch size, with a row for each topology
and layout, as TSV, Markdown and HTML; and for each table a figure of throughput, one of scaling and
one of how latencies are distributed, as SVG and PNG. The plan gives their names. On request, the same for another metric: tables/<table>-memory.md,
figures/<table>-step_time.svg; and any figure as PDF. tables.md has all tables in one file, for a
README.
"""

TABLES = names.table_ids(CASES)
FIGURES = names.figure_ids(CASES)
OTHERS = names.of_other_metrics(CASES)  # made on request

# A name that is not in the plan is reported immediately, with the nearest one. (Snakemake knows its
# targets only after parsing, and would only say that no rule makes the file.)
for target in sys.argv[1:]:
    folder, _, name = target.removeprefix(f"{RESULTS}/").partition("/")
    known = {"tables": TABLES + OTHERS, "figures": FIGURES + OTHERS}.get(folder)
    if known:
        try:
            names.known(name.rpartition(".")[0], known, folder[:-1])
        except LookupError as error:
            raise WorkflowError(f"{target}: {error.args[0]}") from None


wildcard_constraints:
    table="|".join(TABLES + OTHERS),
    figure="|".join(FIGURES + OTHERS),


rule table:
    input:
        f"{RESULTS}/cells.tsv",
    output:
        tsv=f"{RESULTS}/tables/{{table}}.tsv",
        md=f"{RESULTS}/tables/{{table}}.md",
        html=report(
            f"{RESULTS}/tables/{{table}}.html",
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
    log:
        f"{RESULTS}/logs/tables/{{table}}.log",
    localrule: True
    shell:
        PYTHON + " -m dlperf.analysis table --cells {input:q} --table {wildcards.table:q}"
        " --tsv {output.tsv:q} --md {output.md:q} --html {output.html:q} > {log:q} 2>&1"


rule tables_markdown:
    input:
        cells=f"{RESULTS}/cells.tsv",
        measurements=f"{RESULTS}/measurements.tsv.gz",
    output:
        f"{RESULTS}/tables.md",
    log:
        f"{RESULTS}/logs/tables.log",
    localrule: True
    shell:
        PYTHON + " -m dlperf.analysis markdown --cells {input.cells:q}"
        " --measurements {input.measurements:q} --out {output:q} > {log:q} 2>&1"


rule figure:
    input:
        cells=f"{RESULTS}/cells.tsv",
        # found beside the cells
        more=lambda wildcards: {names.ECDF: LATENCIES, names.CURVE: CURVES}.get(
            wildcards.figure.rpartition("-")[2], []
        ),
    output:
        svg=report(
            f"{RESULTS}/figures/{{figure}}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        png=f"{RESULTS}/figures/{{figure}}.png",
    log:
        f"{RESULTS}/logs/figures/{{figure}}.log",
    localrule: True
    params:
        files=lambda wildcards, output: [
            text for kind, path in output.items() for text in (f"--{kind}", path)
        ],
    shell:
        PYTHON + " -m dlperf.analysis figure --cells {input.cells:q} --figure {wildcards.figure:q}"
        " {params.files:q} > {log:q} 2>&1"


# Apart, as its fonts take longer than the rest of a figure.
use rule figure as figure_pdf with:
    output:
        pdf=f"{RESULTS}/figures/{{figure}}.pdf",
    log:
        f"{RESULTS}/logs/figures/{{figure}}.pdf.log",
