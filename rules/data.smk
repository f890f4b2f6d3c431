"""
Required inputs: none; photographs and prose come with three of the workflow's own packages.

Outputs: results/data/sample/, a small ImageNet-like set of JPEG files in class folders;
results/data/prose/, English prose as tokens of a WordPiece vocabulary; each with a manifest that has
the sha256 of every file. Shared by rounds.
"""


rule photographs:
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


rule prose:
    output:
        "results/data/prose/manifest.json",
    log:
        "results/data/prose.log",
    localrule: True
    threads: 1
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "{PYTHON:q} -m dlperf.data.prose --out {params.folder:q} > {log:q} 2>&1"
