"""
Required inputs: cells.tsv.

Outputs: one table a workload, scenario, precision and batch size, as TSV, Markdown and HTML; for
each, a figure of throughput and one of scaling, as SVG and PNG. Their names follow from the plan.
"""


def known_table(wildcards):
    return known(wildcards.table, names.table_ids(CASES), "table")


def known_figure(wildcards):
    return known(wildcards.figure, names.figure_ids(CASES), "figure")


def known(name, there, what):
    try:
        return names.known(name, there, what)
    except LookupError as error:
        raise WorkflowError(error.args[0]) from None


def cells_of(check):
    """cells.tsv, once `check` has found that the plan has such a table or figure."""

    def cells(wildcards):
        check(wildcards)
        return f"{RESULTS}/cells.tsv"

    return cells


rule table:
    input:
        cells_of(known_table),
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
    params:
        name="{table}",
    shell:
        "{PYTHON:q} -m dlperf.analysis table --cells {input:q} --table {params.name:q}"
        " --tsv {output.tsv:q} --md {output.md:q} --html {output.html:q} > {log:q} 2>&1"


rule figure:
    input:
        cells_of(known_figure),
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
        name="{figure}",
    shell:
        "{PYTHON:q} -m dlperf.analysis figure --cells {input:q} --figure {params.name:q}"
        " --svg {output.svg:q} --png {output.png:q} > {log:q} 2>&1"
