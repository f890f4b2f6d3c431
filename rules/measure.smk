"""
Required inputs: the framework's environment (env.json), for real input the data's manifest, the draw
of its seeds, and where the largest size is measured the search that finds it.

Outputs: a record for each repetition, which is never changed, with its log beside it; and a copy of
every record in `attempts/`. A repetition that fails gives a record too, and the rule succeeds.
A record is measured again only where the plan says so (dlperf.plan.state), never for the time of a
file, and stays until a new one replaces it.

Repetitions never share a machine: locally one job takes all cores and the `exclusive` resource, and
the stopwatch holds a lock; on Slurm a job is --exclusive. Frameworks take turns. On a cluster a job
asks for the nodes of its case, and the launcher starts the stopwatch's agents there.
"""

from dlperf.contract.case import NO_JOB
from dlperf.plan import state


@cache
def turns():
    return plan.order(CONFIG, CASES)


@of_each_job
def turn(wildcards):
    """Earlier turns have a higher priority, which Snakemake runs first."""
    return len(turns()) - turns()[case_of(wildcards), int(wildcards.repetition)]


@cache
def first_document(case):
    return plan.document(case, CONFIG, 1)


@of_each_job
def document(wildcards):
    """The case as JSON, so that the stopwatch gets exactly what the path says."""
    case, repetition = case_of(wildcards), repetition_of(wildcards)
    if case.searched:  # its size may be found meanwhile
        return json.dumps(plan.document(case, CONFIG, repetition))
    return json.dumps(plan.of_repetition(first_document(case), case, CONFIG, repetition))


def record_of(wildcards):
    return f"{RESULTS}/runs/{case_of(wildcards).folder}/rep{wildcards.repetition}.json"


def to_try_again(path, case):
    """Whether there is a record, or a search, that should be made again, because the config says so
    or because there was no environment at that time."""
    status, reason = outcome(path)
    if reason == NO_JOB % case.nodes:
        return not workflow.local_exec
    return status in CONFIG.retry or reason.startswith("no environment:")


def is_due(record, wildcards):
    """Whether an existing record is to be measured again."""
    case = case_of(wildcards)
    settings = plan.document(case, CONFIG, repetition_of(wildcards))["settings"]
    due = state.is_due(CONFIG, state.state_of_record(Path(record), settings))
    return due or to_try_again(record, case) or lacks_search(case)


@of_each_job
def inputs_of(wildcards):
    """What a repetition waits for. Where its record stays, the environment and the data are ancient,
    or left out if they are not there: a campaign is not invalidated by what is built or copied
    again, and records name the lock and the data that they were made with. (Where it is measured,
    they are not, because Snakemake forgets missing files behind an ancient input that it makes
    again.)"""
    record = record_of(wildcards)
    recorded = os.path.exists(record)
    due = recorded and is_due(record, wildcards)

    environment = [environment_of(wildcards.framework)]
    data = manifests_of_case(case_of(wildcards))
    if recorded and not due:
        environment, data = (
            [ancient(path) for path in paths if os.path.exists(path)]
            for paths in (environment, data)
        )
    return {
        "environment": environment,
        "data": data,
        "again": again_if(due),
        "search": search_before(wildcards),
        "draw": draw_of(case_of(wildcards)),
    }


@of_each_job
def cores_of(wildcards):
    return cores_of_node(case_of(wildcards).devices_per_node)


def of_case(value):
    """A resource that depends on the case; None means that it is not requested. If all cases have the
    same value, it is not a function, because Snakemake calls functions for each of thousands of
    jobs."""
    values = {value(case) for case in CASES}
    return values.pop() if len(values) == 1 else lambda wildcards: value(case_of(wildcards))


def gres_of(case):
    return f"{CONFIG.cluster.gres}:{case.devices_per_node}"


# What a cluster's job needs besides `threads`, the cores of a node: one task on each node, which
# starts that node's ranks. With `mpi` the job itself runs on the first node, outside of any step.
GEOMETRY = {}
if any(case.nodes > 1 for case in CASES):
    GEOMETRY["nodes"] = of_case(lambda case: case.nodes)
    GEOMETRY["tasks"] = of_case(lambda case: case.nodes if case.nodes > 1 else None)
    GEOMETRY["mpi"] = of_case(lambda case: "srun" if case.nodes > 1 else None)
if CONFIG.device == "cuda":
    GEOMETRY["gres"] = of_case(gres_of)
    GEOMETRY["tasks_per_gpu"] = 0  # otherwise the plugin asks for `tasks` on each GPU


# The part of the command that is the same for every repetition, made once because a campaign has
# thousands of them. These are not parameters of the rule, because then another network name would
# make Snakemake measure again. With exec the stopwatch is a direct child of Snakemake and ends when
# that is killed.
MEASURE = (
    f" -m dlperf.measure {OVER_NODES} --config-sha256 {CONFIG_SHA256}"
    f" --on-failure {CONFIG.on_failure} --lock results/.measuring --round {RESULTS}"
)
SPOT = MEASURE
MEASURE += f" --attempts {RESULTS}/attempts"
MEASURE += f" --checks {CONFIG.checks.seconds} {CONFIG.checks.gigabytes}"
# Before the path of a record: the folder of the weights that it was tested with. It is outside of the
# round, as what nobody replays any more is no part of it.
WEIGHTS = "results/.weights/"


rule repetition:
    input:
        unpack(inputs_of),
    output:
        RECORD,
    log:
        f"{RECORD.removesuffix('.json')}.log",
    priority: turn
    threads: cores_of
    resources:
        **GEOMETRY,
        exclusive=1,
        runtime=of_case(lambda case: CONFIG.timeout_of(case.workload, case.scenario) // 60 + 2),
        tmpdir=tempfile.gettempdir(),  # the default, but without a function
    params:
        case=document,
    shell:
        "exec "
        + PYTHON
        + MEASURE.replace("{", "{{").replace("}", "}}")
        + " --case {params.case:q} --environment {input.environment} --draw={input.draw}"
        + f" --weights={WEIGHTS}{{output}}"
        " --out {output} > {log} 2>&1"
