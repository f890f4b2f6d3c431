"""
Required inputs: everything that merge and figures make, the environments' env.json and, for real
input, the data's manifest.

Outputs: report.html, a self-contained page that needs neither a network nor other files. It can be
read without its script.
"""


rule report_page:
    input:
        config=f"{RESULTS}/config.yaml",
        measurements=f"{RESULTS}/measurements.tsv.gz",
        parity=f"{RESULTS}/parity.tsv",
        certificates=f"{RESULTS}/certificates.tsv",
        cells=f"{RESULTS}/cells.tsv",
        limits=f"{RESULTS}/limits.tsv",
        roofline=f"{RESULTS}/roofline.tsv",
        sums=f"{RESULTS}/SHA256SUMS",
        searches=f"{RESULTS}/searches.tsv" if SEARCHED else [],
        figures=[f"{RESULTS}/figures/{name}.svg" for name in FIGURES],
        environments=[environment_of(framework) for framework in FRAMEWORKS],
        manifests=data_of_round,
        beside=cells_beside,
    output:
        report(
            f"{RESULTS}/report.html",
            caption="../report/page.rst",
            category="Whole round",
            labels={"page": "report.html"},
        ),
    log:
        f"{RESULTS}/logs/report.log",
    localrule: True
    params:
        round=RESULTS,
        shared="results",  # has the environments and data of all rounds
    shell:
        PYTHON + " -m dlperf.analysis report --config {input.config:q} --round {params.round:q}"
        " --shared {params.shared:q} --out {output:q} > {log:q} 2>&1"
