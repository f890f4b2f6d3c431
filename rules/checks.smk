"""
Required inputs: a framework's environment, the data of its case, and PyTorch's environment for replays.

Outputs: a draw for each group of cases that differ in framework and compiler only, made once from the
system's randomness; a spot run of each of these cases: the command of a repetition, on drawn weights
and batches, whose time is not used; and for each group a replay of its spot runs by the reference. The
verdict is merge's. In a round on GPUs a replay takes one of them; locally none runs beside a repetition.

Of the quality scenario, whose repetitions have no spot runs: for each repetition a replay of one batch
of the evaluation that first met the target, and of one of the last evaluation, from the weights that its
ranks left in results/.weights. These are removed then.

A spot run is made again where its case's records were made with other code.
"""

from dlperf import scenarios
from dlperf.contract import draws
from dlperf.plan.checked import unchecked, unreplayed

DRAW = f"{RESULTS}/checks/draws/{{group}}.json"
SPOT_RUN = f"{RESULTS}/checks/{{workload}}/{{framework}}/{{case}}.run.json"
REPLAY = f"{RESULTS}/checks/replays/{{group}}.json"
EVALUATED = f"{RESULTS}/checks/{{workload}}/{{framework}}/{{case}}.rep{{repetition}}.json"


wildcard_constraints:
    group="[a-z0-9_-]+",


@cache
def groups():
    """The cases of each group that are checked, by the group's name."""
    found = {}
    for case in CASES:
        if not unchecked(CONFIG, case):
            found.setdefault(draws.group_of(case), []).append(case)
    return found


@cache
def spot_checks(wildcards=None):
    """Every spot run and replay of the round."""
    runs = [draws.spot_run_of(case) for own in groups().values() for case in own]
    replays = [draws.replay_of(own[0]) for own in groups().values()]
    return [f"{RESULTS}/{path}" for path in [*runs, *replays, *evaluations()]]


def evaluations():
    """The replay of each repetition of the quality scenario. A record that names no batch, such as an
    older one, has none."""
    return [
        draws.evaluation_of(case, repetition)
        for case in CASES
        if scenarios.curved(case.scenario) and not unreplayed(CONFIG, case)
        for repetition in REPETITIONS
        if names_batch(case, repetition)
    ]


def names_batch(case, repetition):
    """Whether a record names a batch of its evaluations, or may do so when it is measured."""
    path = f"{RESULTS}/runs/{case.folder}/rep{repetition}.json"
    record = existing(path)
    if record.get("status") != "ok" or "evaluated" in record:
        return True
    settings = plan.document(case, CONFIG, repetition)["settings"]
    return state.is_due(CONFIG, state.state_of_record(Path(path), settings))


def is_replayed(wildcards):
    """Whether the existing replay is of the existing record, which stays."""
    record, path = record_of(wildcards), EVALUATED.format(**wildcards)
    replay = existing(path)
    if not replay or not os.path.exists(record) or is_due(record, wildcards):
        return False
    return replay.get("record_sha256") == hashlib.sha256(Path(record).read_bytes()).hexdigest()


@of_each_job
def inputs_of_evaluation(wildcards):
    """What a replay waits for. Where it stays, all is ancient or left out: its weights are gone."""
    stays = is_replayed(wildcards)
    paths = [environment_of("pytorch"), *manifests_of_case(case_of(wildcards))]
    if stays:
        paths = [ancient(path) for path in paths if os.path.exists(path)]
    record = record_of(wildcards)
    return {"beside": paths, "record": ancient(record) if stays else record}


def has_draw(case):
    """Whether a case's repetitions take their seeds from a draw: in the quality scenario each is of
    one of its own."""
    return not scenarios.load(case.scenario).COUNTED


@cache
def draw_of(case):
    """What a repetition takes its seeds from; `ancient`, as it is made once."""
    return ancient(f"{RESULTS}/{draws.draw_of(case)}") if has_draw(case) else []


def spot_run_due(wildcards):
    """Whether an existing spot run is to be made again: of other settings than the config has now, or
    of other code than the case's first record."""
    path, case = Path(SPOT_RUN.format(**wildcards)), case_of(wildcards)
    if not path.exists():
        return False
    made = existing(path)
    settings = plan.document(case, CONFIG, 1)["settings"]
    if made.get("settings") != settings or made.get("status") in CONFIG.retry:
        return True
    record = existing(f"{RESULTS}/runs/{case.folder}/rep1.json").get("provenance", {})
    keys = ("code_sha256", "lock_sha256")
    return bool(record) and [record.get(key) for key in keys] != [
        made.get("provenance", {}).get(key) for key in keys
    ]


def inputs_of_spot_run(wildcards):
    path, case = SPOT_RUN.format(**wildcards), case_of(wildcards)
    environment, data = [environment_of(wildcards.framework)], manifests_of_case(case)
    if os.path.exists(path) and not spot_run_due(wildcards):
        environment, data = (
            [ancient(each) for each in paths if os.path.exists(each)]
            for paths in (environment, data)
        )
    return {
        "environment": environment,
        "data": data,
        "draw": ancient(f"{RESULTS}/{draws.draw_of(case)}"),
        "again": again_if(spot_run_due(wildcards)),
        "search": search_before(wildcards),
    }


def turn_of_spot_run(wildcards):
    """That of one of its repetitions, as a page could know which is the first."""
    case = case_of(wildcards)
    of = int(hashlib.sha256(f"{CONFIG_SHA256}/{case.folder}".encode()).hexdigest(), 16)
    return len(turns()) - turns()[case, 1 + of % CONFIG.repetitions]


def memory_of_replay(wildcards):
    """What a reference takes (rules/certify.smk), of the case's own size; of a size that is searched
    as much as a replay may take."""
    case = groups()[wildcards.group][0]
    own = 2000 + 12 * 8 * workloads.parameter_count(case.workload, case.dimensions) // 10**6
    return max(own, 2000 + int(1000 * CONFIG.checks.gigabytes)) if case.searched else own


def bounds_changed(wildcards):
    """Whether an existing replay of searched sizes was held to other bounds than the config has."""
    now = {"seconds": CONFIG.checks.seconds, "gigabytes": CONFIG.checks.gigabytes}
    return existing(REPLAY.format(**wildcards)).get("bounds", now) != now


rule draw:
    output:
        DRAW,
    log:
        f"{RESULTS}/checks/draws/{{group}}.log",
    localrule: True
    shell:
        PYTHON + " -m dlperf.certify.draw {wildcards.group} --out {output:q} > {log:q} 2>&1"


rule spot_run:
    input:
        unpack(inputs_of_spot_run),
    output:
        SPOT_RUN,
    log:
        f"{SPOT_RUN.removesuffix('.json')}.log",
    priority: turn_of_spot_run
    threads: cores_of
    resources:
        **GEOMETRY,
        exclusive=1,
        runtime=of_case(lambda case: CONFIG.timeout_of(case.workload, case.scenario) // 30 + 2),
        tmpdir=tempfile.gettempdir(),
    params:
        case=document,
    shell:
        "exec "
        + PYTHON
        + SPOT.replace("{", "{{").replace("}", "}}")
        + " --draw {input.draw} --spot --case {params.case:q} --environment {input.environment}"
        " --out {output} > {log} 2>&1"


def card_of_replay():
    """What a cluster's job needs for it in a round on GPUs."""
    if CONFIG.device != "cuda":
        return {}
    return {"gres": f"{CONFIG.cluster.gres}:1", "tasks_per_gpu": 0, "exclusive": 1}


rule spot_replay:
    input:
        environment=environment_of("pytorch"),
        runs=lambda wildcards: [
            f"{RESULTS}/{draws.spot_run_of(case)}" for case in groups().get(wildcards.group, [])
        ],
        again=lambda wildcards: again_if(bounds_changed(wildcards)),
    output:
        REPLAY,
    log:
        f"{RESULTS}/checks/replays/{{group}}.log",
    priority: CERTIFICATE
    threads: lambda wildcards: all_cores(2)
    resources:
        **card_of_replay(),
        mem_mb=memory_of_replay,
        runtime=CONFIG.checks.seconds // 20 + 10,
    shell:
        PYTHON + " -m dlperf.certify.replay --environment {input.environment:q} --out {output:q}"
        f" --device {CONFIG.device}"
        f" --seconds {CONFIG.checks.seconds} --gigabytes {CONFIG.checks.gigabytes}"
        " {input.runs:q} > {log:q} 2>&1"


rule evaluation_replay:
    input:
        unpack(inputs_of_evaluation),
    output:
        EVALUATED,
    log:
        f"{EVALUATED.removesuffix('.json')}.log",
    priority: CERTIFICATE
    threads: lambda wildcards: all_cores(2)
    resources:
        mem_mb=lambda wildcards: 2000
        + 3
        * 8
        * workloads.parameter_count(wildcards.workload, case_of(wildcards).dimensions)
        // 10**6,
        runtime=CONFIG.checks.seconds // 20 + 10,
    params:
        environment=environment_of("pytorch"),
    shell:
        PYTHON + " -m dlperf.certify.evaluated --environment {params.environment:q}"
        f" --weights={WEIGHTS}{{input.record}} --seconds {CONFIG.checks.seconds}"
        " --out {output:q} {input.record:q} > {log:q} 2>&1"
