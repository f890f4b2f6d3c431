"""
Required inputs: what merge makes of the round, and what it made of another one, the baseline
(`--config baseline=<round>`: its name, or the path of a folder that has it).

Outputs: compare/<baseline>.tsv, a row a cell, and compare/<baseline>.html, a page that needs nothing
else. `compare` prints what was found and fails where a cell became slower or broke; its files stay.
"""

from dlperf.analysis.compare import rounds

BASELINE = str(COMPARISON.get("baseline") or "")

# A wrong one is told at once, without a job's details around it.
if BASELINE or "compare" in sys.argv[1:]:
    try:
        BASELINE_FOLDER = rounds.find(BASELINE, own=ROUND)
    except LookupError as error:
        raise WorkflowError(error.args[0]) from None


def baseline_of(wildcards):
    """The folder of the round that a comparison's name says."""
    if BASELINE and wildcards.baseline == BASELINE_FOLDER.name:
        return BASELINE_FOLDER
    try:
        return rounds.find(wildcards.baseline, own=ROUND)
    except LookupError as error:
        raise WorkflowError(error.args[0]) from None


rule comparison:
    input:
        [f"{RESULTS}/{name}" for name in rounds.FILES],
        baseline=lambda wildcards: [baseline_of(wildcards) / name for name in rounds.FILES],
    output:
        tsv=f"{RESULTS}/compare/{{baseline}}.tsv",
        html=report(
            f"{RESULTS}/compare/{{baseline}}.html",
            caption="../report/comparison.rst",
            category="Comparison",
            labels={"baseline": "{baseline}"},
        ),
    log:
        f"{RESULTS}/logs/compare/{{baseline}}.log",
    wildcard_constraints:
        baseline="[A-Za-z0-9][A-Za-z0-9._-]*",
    localrule: True
    params:
        round=RESULTS,
        baseline=lambda wildcards: str(baseline_of(wildcards)),
        tolerance=COMPARISON.get("tolerance", 0.02),
    shell:
        # 3 says that there is a regression: here the comparison is done all the same
        "{PYTHON:q} -m dlperf.analysis compare --baseline {params.baseline:q}"
        " --round {params.round:q} --tolerance {params.tolerance:q}"
        " --out-tsv {output.tsv:q} --out-html {output.html:q} > {log:q} 2>&1 || [ $? -eq 3 ]"


rule compare:
    input:
        tsv=lambda wildcards: f"{RESULTS}/compare/{BASELINE_FOLDER.name}.tsv",
        html=lambda wildcards: f"{RESULTS}/compare/{BASELINE_FOLDER.name}.html",
    localrule: True
    shell:
        "{PYTHON:q} -m dlperf.analysis verdict --tsv {input.tsv:q} --html {input.html:q}"
