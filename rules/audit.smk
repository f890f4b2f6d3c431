"""
Required inputs: none that Snakemake may make, because an audit checks the existing files. It needs
neither environments nor a GPU.

Outputs: `audit` checks a round (or an archive of one, `--config archive=FILE.zip`) against its raw
records, prints the differences and writes them to audit.tsv. It fails if there is a difference.
`archive` packs the round, as it is, into results/<round>.zip.
"""


rule audit:
    localrule: True
    params:
        round=ARCHIVE or RESULTS,
        out=f"results/{Path(ARCHIVE).stem}.audit.tsv" if ARCHIVE else f"{RESULTS}/audit.tsv",
    shell:
        "{PYTHON:q} -m dlperf.analysis audit --round {params.round:q} --out {params.out:q}"


rule archive:
    localrule: True
    params:
        round=RESULTS,
        out=f"{RESULTS}.zip",
    shell:
        "{PYTHON:q} -m dlperf.analysis archive --round {params.round:q} --out {params.out:q}"
