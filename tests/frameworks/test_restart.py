"""A training that begins anew from given weights takes the same steps again, in every framework."""

import json
import math

import in_framework
import pytest
from conftest import one_of_all

#: Of a distance over that from where a training began. Steps are repeated by the same program.
ROUNDING = 1e-5

#: Three steps from given weights; two more; three from the weights, moments kept; three by restart.
#: Prints for both how far losses and weights are from those of the first time.
REPEATED = """
import numpy as np
from dlperf.certify.reference import neutral, settings
from dlperf.contract.ownership import as_part
from dlperf.contract.work import as_array

framework = frameworks.load(run.framework)
framework.start(run)
proof = workloads.proof(run.workload)
rate = {"learning_rate": lambda global_batch_size: proof.learning_rate}
with settings(run.workload, dict(proof.settings, **rate)):
    work = workloads.load(run.workload, run.framework).training(run)
start = neutral(run.workload, run.dimensions)

def trained():
    losses = []
    for _ in range(3):
        handle = work.step()
        work.wait()
        losses.append(work.loss(handle))
    arrays = [(as_part(key), as_array(array)) for key, array in work.weights.read()]
    weights = {part.name: (part, np.array(array, "float64")) for part, array in arrays}
    return losses, weights, {name: np.array(each) for name, each in work.weights.statistics()}

def further(found, wanted):
    losses, weights, statistics = found
    gone = [one - other for one, other in zip(losses, wanted[0]) if one is not None]
    distances = {
        "loss": np.abs(gone).max() / np.ptp(wanted[0]) if gone else 0.0
    }
    for name, (part, array) in weights.items():
        distance = np.linalg.norm(array - wanted[1][name][1])
        distances[name] = distance / np.linalg.norm(array - part.of(start[name]))
    for name, array in statistics.items():
        distances[name] = np.linalg.norm(array - wanted[2][name]) / np.linalg.norm(array)
    name = max(distances, key=distances.get)
    return float(distances[name]), name

work.weights.write(start)
first = trained()
work.step()
work.step()
work.weights.write(start)
kept = further(trained(), first)
work.restart(start)
print(json.dumps([first[0], kept, further(trained(), first)]))
sys.stdout.flush()
work.batches.close()
framework.stop(run)
import os
os._exit(0)  # as a rank ends
"""


def repeated(environments, framework, workload, ranks=1, **changes):
    run = in_framework.rank(framework, workload, **changes)
    runs = in_framework.ranks(run, ranks) if ranks > 1 else [run]
    said = in_framework.printed_by_all(runs, REPEATED, environments / f"{framework}.cpu")
    for each in said:
        losses, kept, again = json.loads(each.splitlines()[-1])
        assert all(loss is None or math.isfinite(loss) for loss in losses)
        assert again[0] <= ROUNDING, again
        assert kept[0] > 100 * ROUNDING, "with its old moments it would take other steps"


@pytest.mark.parametrize("framework", one_of_all("pytorch"))
def test_it_is(framework, environments):
    repeated(environments, framework, "gpt")
