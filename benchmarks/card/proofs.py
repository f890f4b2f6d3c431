"""Certificates and spot checks of benchmarks/first_gpu.py: the entries of its table."""

import json

from card.cases import of, ways
from card.running import lacks, read, run
from card.table import Entry
from dlperf.certify import judge, required
from dlperf.contract import draws
from dlperf.measure import bounds, by_hand
from dlperf.workloads.cases import case_of

DATA = {"resnet50": "sample", "bert": "prose"}  # that certificates train on
#: A batch of a spot check that the reference replays on the CPU, in float64; what it replays on a
#: GPU is as large as what is timed, but for the number of steps.
SPOT_BATCH = {"resnet50": 8, "bert": 2}
SPOT_STEPS = 20


def certificates(title, workload, asked):
    """A certificate of each way and precision; PyTorch on the CPU makes the reference."""
    data = asked.data / DATA[workload]
    if not (data / "manifest.json").exists():
        yield Entry(title, f"no {data}: copy it from a machine that has made it")
        return
    reference = asked.out / "certificates" / workload / "reference"
    same = ["--workload", workload, "--data-dir", data]
    if read(reference / "manifest.json").get("status") != "ok":
        last = run(["-m", "dlperf.certify.reference", *same, "--out", reference], 1800, asked)[1]
        if read(reference / "manifest.json").get("status") != "ok":
            yield Entry(title, f"no reference: {last}")
            return
    long_run = reference / "long.json"
    if not long_run.exists():
        run(["-m", "dlperf.certify.long_run", *same, "--out", long_run], 900, asked)
    for precision in ("amp", "tf32", "fp32"):
        for framework, compiler in ways(asked):
            if not lacks(framework) and not (precision == "tf32" and asked.device == "cpu"):
                yield certificate(same, reference, framework, compiler, precision, asked)


def certificate(same, reference, framework, compiler, precision, asked):
    title = f"certificate of {same[1]} {framework}-{compiler} {precision}"
    if asked.time.are_over():
        return Entry(title, asked.time.said)
    identity = by_hand.document(of(same[1], framework, compiler, precision, asked))["identity"]
    out = asked.out / case_of(identity).certificate(asked.device)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    way = ["--framework", framework, "--compiler", compiler, "--precision", precision]
    options = ["--device", asked.device, "--reference", reference, "--out", out]
    last = run(["-m", "dlperf.certify", *same, *way, *options], 900, asked)[1]
    found = read(out)
    if not found:
        return Entry(title, f"no certificate: {last}")
    failed = [tier["name"] for tier in found["tiers"] if tier["passed"] is False]
    return Entry(title, "passed" if found["passed"] else f"NOT PASSED: {', '.join(failed)}")


def spot_check(title, workload, device, asked):
    """A spot run of the first way, its replay by the reference on the device, and the verdict."""
    framework, compiler = ways(asked)[0]
    title = f"{title} {framework}-{compiler} amp, replayed on {device}"
    if lacks("pytorch") or lacks(framework):
        return [Entry(title, lacks("pytorch") or lacks(framework))]
    size = {"measured_steps": SPOT_STEPS}
    if device == "cpu" and not asked.small:
        size["batch_size"] = SPOT_BATCH[workload]
    document = by_hand.document(of(workload, framework, compiler, "amp", asked, size))
    case = case_of(document["identity"])
    ends = (draws.draw_of, draws.spot_run_of, draws.replay_of)
    draw, ran, replay = (asked.out / place(case) for place in ends)
    for path in (draw, ran, replay):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    commands = (
        ["-m", "dlperf.certify.draw", draws.group_of(case), "--out", draw],
        ["-m", "dlperf.measure", "--case", json.dumps(document), "--draw", draw, "--spot"]
        + ["--out", ran],
        ["-m", "dlperf.certify.replay", "--device", device, "--out", replay, ran],
    )
    for command in commands:
        status, last = run(command, 600, asked)
        if status:
            return [Entry(title, f"not made: {last}")]
    found = read(replay)
    if found.get("status") != "ok":
        return [Entry(title, f"{found.get('status')}: {found.get('reason')}")]
    return [Entry(title, verdict(case, read(ran), found))]


def verdict(case, spot_run, replay):
    """What merge says of them, in words."""
    from dlperf.analysis.round import tiers  # needs Python 3.9, as frameworks for GPUs do

    kind = required.kind(case.precision, spot_run["parity"].get("compute_dtype") or "")
    allowed = bounds.allowed(case, kind)
    if why := tiers.drowned(replay, allowed):
        return why
    found = list(tiers.of_training(spot_run, replay, allowed))
    failed = [name for name, measured, most, _ in found if not judge.passes(measured, most)]
    if failed:
        return f"NOT PASSED: {', '.join(failed)}"
    share, name = max((measured / most, name) for name, measured, most, _ in found if most)
    return f"passed; nearest to its tolerance is {name}, at {share:.2f} of it"
