"""
Required inputs: none that Snakemake may make, because an audit checks the existing files. It needs
neither environments nor a GPU.

Outputs: `audit` checks a round (or an archive of one, `--config archive=FILE.zip`) against its raw
records, prints the differences and writes them to audit.tsv. It fails if there is a difference, if
the sha256 is not that of `--config sha256=…`, and if the round was computed with other versions
(unless `--config allow_other_versions=true`). `archive` packs the round, as it is, into
results/<round>.zip.
"""

OPTIONS = ("sha256", "allow-other-versions")


rule audit:
    localrule: True
    params:
        round=ARCHIVE or RESULTS,
        out=AUDITED
        or (f"results/{Path(ARCHIVE).stem}.audit.tsv" if ARCHIVE else f"{RESULTS}/audit.tsv"),
        options=[
            *([f"--sha256={EXPECTED_SHA256}"] if EXPECTED_SHA256 else []),
            *(["--allow-other-versions"] if OTHER_VERSIONS == "true" else []),
        ],
    shell:
        PYTHON + steps.AUDIT.command(CASES, without=OPTIONS) + " {params.options:q}"


rule archive:
    localrule: True
    params:
        **steps.ARCHIVE.params(RESULTS, CASES),
        out=f"{RESULTS}.zip",
    shell:
        PYTHON + steps.ARCHIVE.command(CASES)
