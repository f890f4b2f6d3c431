"""
Required inputs: only the config.

Outputs: the merged, validated config and the list of all repetitions; `plan` prints them.
"""


def has_other_config(wildcards):
    """Whether the round's config.yaml is another one. Snakemake's notes say so too, but they are not
    in every copy of a round."""
    try:
        return Path(f"{RESULTS}/config.yaml").read_text(encoding="utf-8") != CONFIG_TEXT
    except OSError:
        return False


rule config:
    input:
        again=lambda wildcards: again_if(has_other_config(wildcards)),
    output:
        f"{RESULTS}/config.yaml",
    log:
        f"{RESULTS}/logs/config.log",
    localrule: True
    params:
        text=CONFIG_TEXT,
    shell:
        "printf '%s' {params.text:q} > {output:q}.part && mv {output:q}.part {output:q}"


rule plan:
    input:
        config=f"{RESULTS}/config.yaml",
    localrule: True
    params:
        backend=lambda wildcards: "--backend conda" if WITH_CONDA else "",
        remake="--remake" if REMAKE else "",
    shell:
        "{PYTHON:q} -m dlperf.plan show --config {input.config:q} {params.backend} {params.remake}"


rule plan_table:
    input:
        config=f"{RESULTS}/config.yaml",
    output:
        f"{RESULTS}/plan.tsv",
    log:
        f"{RESULTS}/logs/plan.log",
    localrule: True
    shell:
        "{PYTHON:q} -m dlperf.plan tsv --config {input.config:q} > {output:q} 2> {log:q}"
