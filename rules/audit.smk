"""
Required inputs: none that Snakemake may make: an audit looks at what lies there. It needs neither
environments nor a GPU.

Outputs: `audit` prints what differs between a round (or an archive of one, `--config
archive=FILE.zip`) and what its raw records say, and writes it to audit.tsv; it fails where anything
does, where its sha256 is not that of `--config sha256=…`, and, without `--config
allow_other_versions=true`, where it was computed with other versions. `archive` packs the round, as
it lies there, into results/<round>.zip.
"""


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
        "{PYTHON:q} -m dlperf.analysis audit --round {params.round:q} --out {params.out:q}"
        " {params.options:q}"


rule archive:
    localrule: True
    params:
        round=RESULTS,
        out=f"{RESULTS}.zip",
    shell:
        "{PYTHON:q} -m dlperf.analysis archive --round {params.round:q} --out {params.out:q}"
