"""
Required inputs: the framework's environment and, for real input, the data's manifest.

Outputs: results/<round>/searches/<workload>/<framework>/<case>.json for each case whose largest size
is searched (`max` in the config): every try, and what was found. Repetitions of the case take the
number from it when they run. A search that was stopped goes on where it was.

A search never shares a machine: its tries run into the limit of memory, one after another.
"""

from dlperf.contract import searched

SEARCH = f"{RESULTS}/searches/{{workload}}/{{framework}}/{{case}}.json"
SEARCHED = [case for case in CASES if case.searched and not case.unsupported]


@of_each_job
def search_before(wildcards):
    """The search that a repetition waits for; [] where its size is given."""
    case = case_of(wildcards)
    return f"{RESULTS}/{searched.path_of(case)}" if case.searched else []


def lacks_search(case):
    """Whether a case's search was stopped when it was made again. Snakemake makes no missing file
    for the sake of a record that is there already."""
    return bool(case.searched) and not os.path.exists(f"{RESULTS}/{searched.path_of(case)}")


def searches(wildcards=None):
    return [f"{RESULTS}/{searched.path_of(case)}" for case in SEARCHED]


def inputs_of_search(wildcards):
    """As of a repetition: if there is a search, the environment is ancient."""
    environment = environment_of(wildcards.framework)
    there = SEARCH.format(**wildcards)
    return {
        "environment": ancient(environment) if os.path.exists(there) else environment,
        "data": manifests_of_case(case_of(wildcards)),
        "again": again_if(to_try_again(there, case_of(wildcards))),
    }


def options_of_search(wildcards):
    how = plan.search_of(case_of(wildcards), CONFIG)
    return [f"--{name}={value}" for name, value in how.items()]


SEARCH_COMMAND = (
    f" -m dlperf.search {OVER_NODES} --config-sha256 {CONFIG_SHA256} --lock results/.measuring"
)


rule search:
    input:
        unpack(inputs_of_search),
    output:
        SEARCH,
    log:
        f"{SEARCH.removesuffix('.json')}.log",
    priority: SEARCHES
    threads: cores_of
    resources:
        **GEOMETRY,
        exclusive=1,
        # what is not done by then goes on at the next call
        runtime=of_case(lambda case: 12 * CONFIG.timeout_of(case.workload) // 60 + 2),
        tmpdir=tempfile.gettempdir(),
    params:
        case=document,
        options=options_of_search,
    shell:
        "exec "
        + PYTHON
        + SEARCH_COMMAND.replace("{", "{{").replace("}", "}}")
        + " {params.options:q} --case {params.case:q} --environment {input.environment}"
        " --out {output} > {log} 2>&1"
