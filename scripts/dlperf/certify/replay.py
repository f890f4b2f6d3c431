"""The windows of a group's spot runs, computed again by the workload's plain formulas.

    PYTHONPATH=scripts python -m dlperf.certify.replay \\
        --environment results/environments/pytorch.cpu/env.json \\
        --out results/laptop/checks/replays/<group>.json [--device cuda] \\
        results/laptop/checks/<workload>/<framework>/<case>.run.json …

In: the spot runs of cases that differ in framework and compiler alone; so they have the same draw.
Out: for each window what training in float64, or on a GPU in float32, makes of the very weights and
batches at those very sizes: losses, and for each tensor the norm of its change, and of each matrix
the change's product with its start (`along`); and for each case the change's projections by the
signs that were drawn behind its window; and of a training that draws random numbers, mean and
deviation of what chance makes of the short window, and of a table that it samples how many of how
many `rows` change. Where frameworks' own readers gave the batches, or each run has a size that a
search found, all of that for each run (`own`). Of inferences: for each case the outputs for those
batches whose answers were asked for (measure/answers.py). No judgement: that is the analysis's.
"""

import argparse
import json
import math
import time
import traceback
from typing import NamedTuple, Optional

import numpy as np

from dlperf import scenarios, workloads
from dlperf.certify.answered import answered, key_of
from dlperf.certify.formulas import DTYPES, Unavailable, choose, formulas, here, input_of, run_in
from dlperf.certify.reference import provenance
from dlperf.contract import files, strict_json
from dlperf.contract.ownership import Part
from dlperf.contract.projection import projected
from dlperf.contract.sampled import samples
from dlperf.contract.tensor import EMBEDDING
from dlperf.contract.work import as_array
from dlperf.measure import bounds, given
from dlperf.workloads.cases import case_of

SCHEMA = "dlperf.replay/1"
MODULE = "dlperf.certify.replay"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m " + MODULE)
    parser.add_argument("runs", nargs="+", help="spot runs of a group")
    parser.add_argument("--environment", help="env.json whose interpreter has PyTorch")
    parser.add_argument("--lock-sha256", default="", help="of the lock that PyTorch comes from")
    parser.add_argument("--out", required=True)
    parser.add_argument(
        "--device", choices=sorted(DTYPES), default="cpu", help="cuda: the first GPU, in float32"
    )
    for name in ("seconds", "gigabytes"):
        parser.add_argument(
            "--" + name,
            type=float,
            default=math.inf,
            help="what replays may take, about, of runs whose size a search found (default: any)",
        )
    asked = parser.parse_args(arguments)
    if asked.environment:
        run_in(asked, arguments, MODULE, SCHEMA)
    document = replay(asked)
    files.write(asked.out, json.dumps(document) + "\n")
    print(
        "%s: %s%s"
        % (asked.out, document["status"], document["reason"] and ": " + document["reason"])
    )


def replay(asked):
    """The document of the spot runs in `asked.runs`."""
    started, runs = time.time(), [strict_json.read(path) for path in asked.runs]
    ran = [each for each in runs if each["status"] == exact(each)["status"] == "ok"]
    document = {"schema": SCHEMA, "status": "ok", "reason": "", "windows": [], "projections": {}}
    if not ran:
        return dict(document, status="unavailable", reason="no spot run of this group ended well")
    case = case_of(ran[0]["identity"])
    document["provenance"] = provenance(case.workload, asked.lock_sha256)
    try:
        document["provenance"]["device"] = choose(asked.device)
    except Unavailable as reason:
        return dict(document, status="unavailable", reason=str(reason))
    if case.searched:
        document["bounds"] = bounds_of(asked)
        document["own"] = of_own_sizes(ran, asked)
    elif bounds.has_own_batches(case) and trains(case):
        document["own"] = {key_of(each): attempted(of_own_batches, case, each) for each in ran}
    else:
        document.update(attempted(replayed if trains(case) else answered, case, ran))
    document["provenance"]["seconds"] = round(time.time() - started, 1)
    if not case.searched:  # what the plan learns from
        document["provenance"]["expected_seconds"] = round(costs_of(ran[0])[0], 1)
    return document


def bounds_of(asked):
    """The bounds that the replay is held to; JSON has no infinity."""
    given = {"seconds": asked.seconds, "gigabytes": asked.gigabytes}
    return {name: each for name, each in given.items() if math.isfinite(each)}


def attempted(compute, *given):
    """`status`, `reason`, and what `compute` says of what is given."""
    try:
        return dict(compute(*given), status="ok", reason="")
    except (Unavailable, ValueError) as reason:  # such as samples that rounding decides
        return {"status": "unavailable", "reason": str(reason)}
    except Exception as error:
        if here() == "cpu":
            raise  # a host may have more memory the next time
        # a GPU has too little memory, or what has not run on one fails: the round goes on
        traceback.print_exc()
        reason = "the replay failed on the GPU: %s: %s" % (type(error).__name__, error)
        return {"status": "unavailable", "reason": reason[:500]}


def of_own_sizes(runs, asked):
    """By framework and compiler what each run says whose size a search found, from the quickest
    replay on, as long as all of them stay within the bounds."""
    found, took = {}, 0.0
    for seconds, gigabytes, run in sorted(map(costs_of, runs), key=lambda each: each[0]):
        took += seconds
        reason = bounds.beyond(took, gigabytes, asked.seconds, asked.gigabytes)
        case = case_of(run["identity"])
        if reason:
            found[key_of(run)] = {"status": "unavailable", "reason": reason}
        else:
            found[key_of(run)] = attempted(replayed if trains(case) else answered, case, [run])
    return found


def costs_of(run):
    """(seconds, gigabytes, the run): what a replay of this run alone takes, about."""
    case, settings = case_of(run["identity"]), run["settings"]
    seconds, gigabytes = bounds.cost(case, here(), settings["measured_steps"])
    limit = settings.get("memory_limit_bytes", 0)  # a GPU has none
    return seconds, max(gigabytes, bounds.committed(case, limit)), run


def trains(case):
    return scenarios.load(case.scenario).TRAINS


def of_own_batches(case, run):
    """What `replay` says of a run whose framework's own reader gave the batches."""
    if not all(all(each["batches"]) for each in exact(run)["windows"]):
        raise Unavailable("batches of its own reader were not kept")
    return replayed(case, [run])


def replayed(case, runs):
    """`windows`, of each framework and compiler its `projections` of each window, and `chance`."""
    drawn, settings = runs[0]["drawn"], runs[0]["settings"]
    for each in runs[1:]:
        if each["drawn"] != drawn:
            raise Unavailable("spot runs of one group have different draws")
    pools = {pool_of(each) for each in runs}, {pool_of(exact(each)) for each in runs}
    if max(map(len, pools)) > 1:
        raise Unavailable("spot runs of one group have pools of other numbers of batches")
    input = input_of(case, drawn["seed"], settings["data_dir"], *pools[0])
    exact_input = input_of(case, drawn["seed"], settings["data_dir"], *pools[1])
    proof, draws = workloads.proof(case.workload), workloads.draws(case)
    windows, chance = [], None
    projections, done = {key_of(each): [] for each in runs}, settings["warmup_steps"]
    for number, (seed, steps) in enumerate(drawn["windows"]):
        own = case.workload, case.dimensions, seed, settings["data_dir"]
        start = workloads.Initial(*own, timed=True)
        window = Steps(seed, done, steps, exact(runs[0])["windows"][number].get("batches"))
        with workloads.settings(case.workload, proof.undrawn if draws else {}):
            losses, new = train(case, exact_input, start, window)
            rounded = rounding(case, exact_input, start, window, new) if here() == "cpu" else None
        norms, products, changed = {}, {}, {}
        for each in runs:
            own, sums = exact(each), {}
            for name, array in new.items():
                at = Part(name), array.shape, array, as_array(start[name])
                told = projected(*at, own["windows"][number]["signs"])
                squares, sums[name], along, changed[name] = told
                norms[name] = math.sqrt(squares)
                if array.ndim > 1:
                    products[name] = along
            projections[key_of(each)].append(sums)
        made = {"loss": losses, "norms": norms, "along": products, "rounded": rounded}
        windows.append(dict(made, rows=rows_of(case, changed)))
        if draws and steps == min(count for _, count in drawn["windows"]):
            chance = dict(by_chance(case, input, start, window), window=number)
        done += steps
    return {"windows": windows, "projections": projections, "chance": chance}


class Steps(NamedTuple):
    """Those of a window: its seed, how many steps came before, how many it has, and for each rank
    the batches where its framework's own reader gave them (measure/given.py)."""

    seed: int
    before: int
    count: int
    batches: Optional[list] = None


class Given:
    """Batches as a framework's own reader gave them: a source of these."""

    def __init__(self, document):
        self._batches, self._last = iter(given.read(document)), None

    def next(self):
        """Behind the last one that again: a run that takes fewer than it has steps does other work,
        which the verdict says."""
        self._last = next(self._batches, self._last)
        return self._last

    def close(self):
        pass


def exact(run):
    """The part of a spot run that draws no random numbers."""
    return run.get("undrawn", run)


def pool_of(run):
    """How many synthetic batches it had; 0 where it read its batches."""
    return run["parity"].get("synthetic_batches", 0)


def rows_of(case, changed):
    """{name: [how many rows changed, of how many]} of tables that the steps draw samples of."""
    if not samples(workloads.proof(case.workload), case.dimensions):
        return {}
    tensors = workloads.of(case.workload).parameters(case.dimensions).items()
    return {
        name: [changed[name], each.shape[0]] for name, each in tensors if each.kind == EMBEDDING
    }


def rounding(case, input, start, window, new):
    """The same steps in float32: losses, norms of changes, products with what matrices were, and
    how `far` they are from `new`, the weights in float64."""
    losses, found = train(case, input, start, window, "fp32")
    norms, far, along = {}, {}, {}
    for name, array in found.items():
        was = as_array(start[name]).astype("float64")
        norms[name] = float(np.linalg.norm(array - was))
        far[name] = float(np.linalg.norm(array - new[name]))
        if array.ndim > 1:
            along[name] = float(np.vdot(array - was, was))
    return {"loss": losses, "norms": norms, "far": far, "along": along}


def by_chance(case, input, start, window):
    """Mean and deviation, over random numbers, of what a training makes that draws some: of each
    step's `loss`, and of the norm of each tensor's change."""
    import torch

    proof, losses, norms = workloads.proof(case.workload), [], []
    for draw in range(bounds.DRAWS):
        torch.manual_seed(draw)
        with workloads.settings(case.workload, proof.by_chance(draw) if proof.by_chance else {}):
            own, new = train(case, input, start, window, "fp32")
        losses.append(own)
        norms.append(
            [float(np.linalg.norm(each - as_array(start[name]))) for name, each in new.items()]
        )
    deviations = [np.std(each, axis=0, ddof=1).tolist() for each in (losses, norms)]
    means = [np.mean(each, axis=0).tolist() for each in (losses, norms)]
    return {
        "draws": bounds.DRAWS,
        "loss": list(zip(means[0], deviations[0])),
        "norms": dict(zip(new, zip(means[1], deviations[1]))),
    }


def train(case, input, start, window, precision=None):
    """(losses, {name: array} of the weights behind them) of a window's steps from these weights;
    precision: that of the device unless it is given."""
    plain = formulas(input, start, precision or DTYPES[here()], case.layout.accumulation)
    if window.batches:
        plain.close()
        plain.sources = [Given(each) for each in window.batches]
    else:
        for source in plain.sources:
            if not source.pooled:
                for _ in range(window.before * case.layout.accumulation):
                    source.next()
            source.redraw(window.seed, window.count)
    formula = workloads.proof(case.workload).optimizer(plain.weights, case.dimensions)
    rate = workloads.facts(case.workload).learning_rate(case.global_batch_size)
    losses = []
    for _ in range(window.count):
        loss, gradients = plain.gradients()
        plain.weights = formula.update(plain.weights, gradients, rate)
        losses.append(loss)
    plain.close()
    return losses, {name: each.cpu().numpy() for name, each in plain.weights.items()}


if __name__ == "__main__":
    main()
