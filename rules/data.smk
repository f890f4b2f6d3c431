"""
Required inputs: none; the photographs come with two of the workflow's own packages.

Outputs: results/data/sample/, a small ImageNet-like set of JPEG files in class folders, and its
manifest with the sha256 of every file. Shared by rounds.
"""


rule sample_data:
    output:
        "results/data/sample/manifest.json",
    log:
        "results/data/sample.log",
    localrule: True
    threads: 1
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "{PYTHON:q} -m dlperf.data.sample --out {params.folder:q} > {log:q} 2>&1"
