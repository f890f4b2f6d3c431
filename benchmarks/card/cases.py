"""The cases of benchmarks/first_gpu.py, in their order: (title, values by key) each.

In: the options of first_gpu.py. `values` are what `dlperf.measure.by_hand.document` takes. The
sizes are those of config/rounds/one-gpu.yaml, so that records fit into a round.
"""

from pathlib import Path

from dlperf import frameworks, workloads
from dlperf.contract.case import made_as

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = {"pytorch": "torch", "jax": "jax"}
#: The most promising first: the ten minutes may be over before the list is.
WAYS = (("pytorch", "inductor"), ("jax", "xla"), ("pytorch", "none"))
#: Batches in mixed precision; other parts take the first one.
BATCHES = {"resnet50": (256, 512), "bert": (64, 256)}
#: Seconds of a case that takes longer than `--limit`: ELECTRA in JAX compiles two networks.
LIMITS = {"electra": 300}
SMALL = {
    "resnet50": {"batch_size": 2, "image_size": 32},
    "bert": {"batch_size": 1, "sequence_length": 16},
    "wide_deep": {"batch_size": 2, "vocabulary": 20000, "layers": 1},
    "electra": {"batch_size": 1, "sequence_length": 16},
    "electra_squad": {"batch_size": 1, "sequence_length": 16},
    "gpt": {"batch_size": 1, "width": 32, "layers": 2, "heads": 2, "sequence_length": 16},
    "insightface": {"batch_size": 2, "backbone": "y1", "num_classes": 1000, "image_size": 32},
}
#: Beside the first ones, as config/rounds/one-gpu.yaml has them; compiled as users do by default.
OTHERS = (
    {"workload": "wide_deep", "batch_size": 16384, "layers": 2, "precision": "fp32"},
    {"workload": "electra", "batch_size": 176},
    {"workload": "electra", "batch_size": 24, "sequence_length": 512},
    {"workload": "electra_squad", "batch_size": 32},
    {"workload": "gpt", "batch_size": 8},
    {"workload": "insightface", "batch_size": 64, "precision": "fp32"},
    {"workload": "resnet50", "scenario": "infer", "batch_size": 1},
    {"workload": "resnet50", "scenario": "infer", "batch_size": 256},
    {"workload": "bert", "scenario": "infer", "batch_size": 8},
    {"workload": "wide_deep", "scenario": "infer", "batch_size": 512, "layers": 2}
    | {"precision": "fp32"},
    {"workload": "electra_squad", "scenario": "infer", "batch_size": 1},
    {"workload": "gpt", "scenario": "infer", "batch_size": 8},
    {"workload": "resnet50", "scenario": "server", "batch_size": 1, "arrival_rate": 100},
    {"workload": "resnet50", "scenario": "quality", "batch_size": 32, "data": "digits"}
    | {"epochs": 6, "evaluations": 12, "image_size": 32},
    {"workload": "bert", "scenario": "quality", "batch_size": 64, "data": "sample"}
    | {"epochs": 200, "evaluations": 10},
    {"workload": "wide_deep", "scenario": "quality", "batch_size": 512, "data": "sample"}
    | {"epochs": 1, "evaluations": 10, "vocabulary": 20000, "layers": 2, "precision": "fp32"},
    {"workload": "electra", "scenario": "quality", "batch_size": 16, "data": "sample"}
    | {"epochs": 50, "evaluations": 10, "first_steps": 720},
)
#: Batches of an inference: the fewest of which a p99 can be told are 368.
INFERRED = {"warmup_steps": 20, "measured_steps": 400}
#: Sizes of a step that is looked through for waits.
WAITS = {"resnet50": {"image_size": 64}, "bert": {"sequence_length": 32}}
#: A batch that no card holds: on a CPU, so large that the allocation itself is refused.
TOO_LARGE = {"cuda": 4096, "cpu": 1 << 30}


def first_workloads(asked):
    return [workload for workload in BATCHES if workload in asked.workload]


def ways(asked):
    return [way for way in WAYS if way[0] in asked.framework]


def mixed(asked):
    """Mixed precision, in both batches of each workload, one way after the other."""
    for framework, compiler in ways(asked):
        for workload in first_workloads(asked):
            batches = BATCHES[workload][:1] if asked.small else BATCHES[workload]
            for batch in batches:
                values = of(workload, framework, compiler, "amp", asked, {"batch_size": batch})
                title = f"{workload} {framework}-{compiler} amp batch {values['batch_size']}"
                yield title, values


def of_precision(precision, asked):
    """All workloads in all ways in another precision."""
    for workload in first_workloads(asked):
        for framework, compiler in ways(asked):
            title = f"{workload} {framework}-{compiler} {precision}"
            yield title, of(workload, framework, compiler, precision, asked)


def padded(asked):
    """BERT with a vocabulary that tensor cores like, beside the same without padding above."""
    if "bert" in asked.workload:
        for framework, compiler in [each for each in ways(asked) if each[1] != "none"]:
            title = f"bert {framework}-{compiler} amp, padded vocabulary"
            own = {"padded_vocabulary": 1}
            yield title, of("bert", framework, compiler, "amp", asked, own)


def too_large(asked):
    """A batch that must be `oom`, in eager PyTorch if it is asked for."""
    for workload in first_workloads(asked)[:1]:
        framework, compiler = ways(asked)[-1]
        values = of(workload, framework, compiler, "fp32", asked)
        values["batch_size"] = TOO_LARGE[asked.device]
        yield f"{workload} {framework}-{compiler} fp32, must be oom", values


def first(asked):
    """All cases of the first part, in the order in which it measures them."""
    yield from mixed(asked)
    yield from padded(asked)
    yield from of_precision("tf32", asked)
    yield from too_large(asked)
    yield from of_precision("fp32", asked)


def others(asked):
    """Those of the other workloads and scenarios, in the frameworks that have them."""
    seen = []
    for own in OTHERS:
        made = made_as(own.get("scenario", "train"))
        for framework in asked.framework if own["workload"] in asked.workload else ():
            if not workloads.implements(own["workload"], framework, made):
                continue
            compiler = frameworks.of(framework).default_compiler[asked.device]
            precision = own.get("precision", "amp")
            values = of(own["workload"], framework, compiler, precision, asked, own)
            if values in seen:  # what differs in size alone is one small case
                continue
            seen.append(values)
            what = f"{own['workload']} {values.get('scenario', 'train')}"
            sizes = f"batch {values['batch_size']}"
            if "sequence_length" in own:
                sizes += f", {own['sequence_length']} tokens"
            yield f"{what} {framework}-{compiler} {precision} {sizes}", values


CASES = {"first": first, "others": others}


def of(workload, framework, compiler, precision, asked, own=None):
    """The values of a case; `own` are those that only it has."""
    values = {
        "workload": workload,
        "framework": framework,
        "compiler": compiler,
        "precision": precision,
        "device": asked.device,
        "round": "first-gpu",
        "timeout_seconds": max(asked.limit, LIMITS.get(workload, 0)),
        "batch_size": BATCHES.get(workload, (None,))[0],
        **(own or {}),
    }
    scenario, trained = values.get("scenario", "train"), values.get("data", "synthetic")
    if scenario in ("infer", "server"):
        values.update(INFERRED)
    if asked.small:
        steps = 6 if scenario in ("infer", "server") else 2  # 6: the fewest that have a p50
        values.update(SMALL[workload], warmup_steps=1, measured_steps=steps)
        values.update(minimum_seconds=0, cores_per_device=1)
        if scenario == "server":
            values.update(batch_size=1, arrival_rate=2)
        if scenario == "quality":  # it is tested with as many, all over the test set
            values["batch_size"] = own["batch_size"]
            if "first_steps" in own:
                values.update(first_steps=1, second_length=2 * values["sequence_length"])
    if scenario == "quality":
        data = workloads.data(workload)[trained]
        steps = values["epochs"] * (data.samples // values["batch_size"])
        values.update(target=data.target, data_dir=by_root(asked.data / data.folder))
        values["measured_steps"] = 2 if asked.small else steps
        values["evaluations"] = min(values["evaluations"], values["measured_steps"])
    return values


def by_root(path):
    """A path as a round of this repository spells it, from its root, if it lies there."""
    path = path.absolute()
    return str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)
