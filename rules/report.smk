"""
Required inputs: everything that merge and figures make, the environments' env.json and, for real
input, the data's manifest.

Outputs: report.html, a self-contained page that needs neither a network nor other files. It can be
read without its script.
"""


rule report_page:
    input:
        **steps.REPORT.inputs(RESULTS, CASES),
        figures=[f"{RESULTS}/figures/{name}.svg" for name in FIGURES + FIGURES_BESIDE],
        environments=[environment_of(framework) for framework in FRAMEWORKS],
        manifests=data_of_round,
        beside=cells_beside,
        verdicts=VERDICTS,
    output:
        out=report(
            steps.REPORT.outputs(RESULTS, CASES)["out"],
            caption="../report/page.rst",
            category="Whole round",
            labels={"page": "report.html"},
        ),
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    params:
        **steps.REPORT.params(RESULTS, CASES),
    shell:
        PYTHON + steps.REPORT.command(CASES) + " > {log:q} 2>&1"
