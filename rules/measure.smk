"""
Required inputs: the framework's environment (env.json) and, for real input, the data's manifest.

Outputs: one record a repetition, immutable, with its log beside it; a copy of every record ever
made in `attempts/`. A repetition that fails is a record too, and the rule succeeds.

Repetitions never share a machine: locally one job takes all cores and the `exclusive` resource,
and the stopwatch holds a lock; on Slurm a job is --exclusive. They take turns over frameworks.
On a cluster a job asks for the case's nodes, and the launcher starts the stopwatch's agents there.
"""

from dlperf.contract.case import NO_JOB


@cache
def turns():
    return plan.order(CONFIG, CASES)


@of_each_job
def turn(wildcards):
    """Earlier turns come first: Snakemake runs the higher priority first."""
    return len(turns()) - turns()[case_of(wildcards), int(wildcards.repetition)]


@of_each_job
def document(wildcards):
    """The case as JSON: what the path says is what the stopwatch is told."""
    return json.dumps(plan.document(case_of(wildcards), CONFIG, int(wildcards.repetition)))


def record_of(wildcards):
    return f"{RESULTS}/runs/{case_of(wildcards).folder}/rep{wildcards.repetition}.json"


def to_try_again(wildcards):
    """Whether there is a record that should be made again: the config says so, or there was no
    environment then."""
    status, reason = outcome(record_of(wildcards))
    if reason == NO_JOB % case_of(wildcards).nodes:
        return not workflow.local_exec
    return status in CONFIG.retry or reason.startswith("no environment:")


@of_each_job
def inputs_of(wildcards):
    """What a repetition waits for. Of a recorded one the environment is ancient: one that was built
    anew does not throw a campaign away, and records name the lock that they were made with. (Not of
    others: where Snakemake builds an environment again, it forgets what is missing behind an
    ancient one.)"""
    case = case_of(wildcards)
    environment = environment_of(wildcards.framework)
    recorded = os.path.exists(record_of(wildcards))
    return {
        "environment": ancient(environment) if recorded else environment,
        "data": manifest_of_case(case),
        "again": again_if(to_try_again(wildcards)),
    }


@of_each_job
def cores_of(wildcards):
    return all_cores(case_of(wildcards).devices_per_node * CONFIG.cores_per_device)


def of_case(value):
    """A resource from the case; where that is None, it is not asked for. What all cases have in
    common is no function: Snakemake calls those for each of thousands of jobs."""
    values = {value(case) for case in CASES}
    return values.pop() if len(values) == 1 else lambda wildcards: value(case_of(wildcards))


def gres_of(case):
    return f"{CONFIG.cluster.gres}:{case.devices_per_node}"


# What a cluster's job needs beside `threads`, the cores of a node: one task a node, which starts
# that node's ranks. With `mpi` the job itself runs on the first node, outside of any step.
GEOMETRY = {}
if any(case.nodes > 1 for case in CASES):
    GEOMETRY["nodes"] = of_case(lambda case: case.nodes)
    GEOMETRY["tasks"] = of_case(lambda case: case.nodes if case.nodes > 1 else None)
    GEOMETRY["mpi"] = of_case(lambda case: "srun" if case.nodes > 1 else None)
if CONFIG.device == "cuda":
    GEOMETRY["gres"] = of_case(gres_of)
    GEOMETRY["tasks_per_gpu"] = 0  # else the plugin asks for `tasks` on each GPU


LAUNCHER = CONFIG.cluster.launcher.replace(
    "{gres}", f"--gres={CONFIG.cluster.gres}:{{devices}}" if CONFIG.device == "cuda" else ""
).strip()


# What is the same for every repetition, put together once: a campaign has thousands of them. No
# parameters of the rule: another name of a network would make Snakemake measure again.
# exec: the stopwatch stands right below Snakemake, and ends when that is killed.
MEASURE = (
    f"exec {shlex.quote(PYTHON)} -m dlperf.measure --config-sha256 {CONFIG_SHA256}"
    f" --on-failure {CONFIG.on_failure} --lock results/.measuring"
    f" --attempts {RESULTS}/attempts --launcher {shlex.quote(LAUNCHER)}"
    f" --interface={shlex.quote(CONFIG.cluster.interface)}"
)


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
        runtime=of_case(lambda case: CONFIG.timeout_of(case.workload) // 60 + 2),
        tmpdir=tempfile.gettempdir(),  # as by default, without a function
    params:
        case=document,
    shell:
        MEASURE.replace("{", "{{").replace("}", "}}")
        + " --case {params.case:q} --environment {input.environment} --out {output} > {log} 2>&1"
