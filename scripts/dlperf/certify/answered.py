"""The answers of a group's inferences, computed again by the reference's formulas.

In: spot runs that name the batches whose answers they show (measure/answers.py). Out: what is to be
held beside these.
"""

from dlperf import workloads
from dlperf.certify.formulas import DTYPES, Unavailable, formulas, here, input_of
from dlperf.contract.projection import summary


def answered(case, runs):
    """`answers`: of each framework and compiler, by rank what projection.summary says of the
    outputs for those batches that its spot run shows."""
    with workloads.settings(case.workload, workloads.proof(case.workload).undrawn):
        return {"answers": answers_of(case, runs)}


def answers_of(case, runs):
    import torch

    drawn, data_dir = runs[0]["drawn"], runs[0]["settings"]["data_dir"]
    if any(each["drawn"] != drawn for each in runs):
        raise Unavailable("spot runs of one group have different draws")
    ((seed, steps),) = drawn["windows"]
    start = workloads.Initial(case.workload, case.dimensions, drawn["seed"], data_dir, timed=True)
    plain = formulas(input_of(case, drawn["seed"], data_dir, 0), start, DTYPES[here()])
    running = {
        name: torch.from_numpy(each).to(here(), plain.type)
        for name, each in workloads.running_at_start(case).items()
    }
    for source in plain.sources:
        source.redraw(seed, steps)
    found = {key_of(each): [{} for _ in plain.sources] for each in runs}
    for rank, source in enumerate(plain.sources):
        asked = [
            (shown["number"], name, each)
            for each in runs
            for name, shown in each["windows"][0]["answers"][rank].items()
        ]
        for number, batch in batches_of(source, {number for number, _, _ in asked}):
            outputs = plain.outputs_of(batch, running)
            for other, name, each in asked:
                if other == number:
                    told = summary(outputs, each["windows"][0]["signs"])
                    found[key_of(each)][rank][name] = told
    plain.close()
    return found


def batches_of(source, numbers):
    """(number, batch) for each number: a pool's own, or one of those that are read in turn."""
    if source.pooled:
        for number in sorted(numbers):
            yield number, source.batch(number)
        return
    for number in range(max(numbers) + 1):
        batch = source.next()
        if number in numbers:
            yield number, batch


def key_of(run):
    """Framework and compiler, which tell a group's cases apart."""
    return "%s/%s" % (run["identity"]["framework"], run["identity"]["compiler"])
