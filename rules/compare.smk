"""
Required inputs: what merge makes of the round, and what it made of another one, the baseline
(`--config baseline=<round>`: its name, or the path of its folder).

Outputs: compare/<baseline>.tsv with a row for each cell, and compare/<baseline>.html, a
self-contained page; for another metric (`--config baseline=<round> metric=memory`) in
compare/<metric>/. `compare` prints the result and fails if a cell became slower or broke; the files
are kept.
"""

from dlperf import scenarios
from dlperf.analysis.compare import rounds

BASELINE = str(COMPARISON.get("baseline") or "")
COMPARED = steps.COMPARE.outputs(RESULTS, CASES)
METRIC = str(COMPARISON.get("metric") or "")

# A wrong metric is reported immediately, without the details of a job.
if METRIC:
    try:
        names.known(
            METRIC, [each for name in scenarios.NAMES for each in scenarios.metrics(name)], "metric"
        )
    except LookupError as error:
        raise WorkflowError(f"--config metric={METRIC}: {error.args[0]}") from None
if BASELINE or "compare" in sys.argv[1:]:
    try:
        BASELINE_FOLDER = rounds.find(BASELINE, own=ROUND)
    except LookupError as error:
        raise WorkflowError(error.args[0]) from None


def baseline_of(wildcards):
    """The folder of the baseline that the name of a comparison gives."""
    if BASELINE and wildcards.baseline == BASELINE_FOLDER.name:
        return BASELINE_FOLDER
    try:
        return rounds.find(wildcards.baseline, own=ROUND)
    except LookupError as error:
        raise WorkflowError(error.args[0]) from None


def compared():
    """The path of the requested comparison, without the suffix."""
    folder = f"{RESULTS}/compare/{METRIC}" if METRIC else f"{RESULTS}/compare"
    return f"{folder}/{BASELINE_FOLDER.name}"


rule comparison:
    input:
        [f"{RESULTS}/{name}" for name in rounds.FILES],
        baseline=lambda wildcards: [baseline_of(wildcards) / name for name in rounds.FILES],
    output:
        out_tsv=COMPARED["out_tsv"],
        out_html=report(
            COMPARED["out_html"],
            caption="../report/comparison.rst",
            category="Comparison",
            labels={"baseline": "{baseline}"},
        ),
    log:
        f"{RESULTS}/logs/compare/{{metric}}{{baseline}}.log",
    wildcard_constraints:
        baseline="[A-Za-z0-9][A-Za-z0-9._-]*",
        metric="([a-z0-9_]+/)?",
    localrule: True
    params:
        **steps.COMPARE.params(RESULTS, CASES),
        baseline=lambda wildcards: str(baseline_of(wildcards)),
        tolerance=COMPARISON.get("tolerance", 0.02),
        metric=lambda wildcards: wildcards.metric.rstrip("/"),
    shell:
        # 3 means that there is a regression, but the comparison itself succeeded
        PYTHON + steps.COMPARE.command(CASES) + " > {log:q} 2>&1 || [ $? -eq 3 ]"


rule compare:
    input:
        tsv=lambda wildcards: f"{compared()}.tsv",
        html=lambda wildcards: f"{compared()}.html",
    localrule: True
    shell:
        PYTHON + steps.VERDICT.command(CASES)
