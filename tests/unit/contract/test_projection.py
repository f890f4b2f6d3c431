"""A change in a few numbers: parts add up, and differences are estimated."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import SCRIPTS

from dlperf.contract.mesh import DATA, TENSOR
from dlperf.contract.ownership import FLAT, Part, divided
from dlperf.contract.projection import BLOCK, PROJECTIONS, projected
from dlperf.contract.tensor import Tensor
from dlperf.contract.work import table

SHAPE = (7, 6, 5)


def changed(shape=SHAPE, seed=1):
    random = np.random.RandomState(seed)
    begin = random.standard_normal(shape).astype("float32")
    return begin, begin + random.standard_normal(shape).astype("float32")


def of(part, array, begin, seed=3, shape=SHAPE):
    squares, sums, along, _ = projected(part, shape, part.of(array), part.of(begin), seed)
    return squares, np.array(sums), along


@pytest.mark.parametrize(
    "parts",
    [
        [Part("w", 0, ((0, 4),)), Part("w", 0, ((4, 7),))],
        [Part("w", 1, ((0, 2), (4, 5))), Part("w", 1, ((2, 4), (5, 6)))],
        [Part("w", 2, ((0, 1),)), Part("w", 2, ((1, 5),))],
        [Part("w", FLAT, ((0, 11),)), Part("w", FLAT, ((11, 210),))],
    ],
    ids=["rows", "blocks", "columns", "flat"],
)
def test_parts_add_up_to_the_whole(parts):
    begin, array = changed()
    squares, sums, along = of(Part("w"), array, begin)
    own = [of(part, array, begin) for part in parts]
    gone = array.astype("float64") - begin
    assert squares == pytest.approx(float((gone**2).sum()), rel=1e-12)
    assert along == pytest.approx(float((gone * begin).sum()), rel=1e-12)
    for place, whole in enumerate((squares, sums, along)):
        np.testing.assert_allclose(sum(each[place] for each in own), whole, rtol=1e-9)


def test_a_tensor_that_ranks_share_out_adds_up_too():
    begin, array = changed((6, 4))
    tensor = Tensor((6, 4), "dense", axis=0, over=TENSOR)
    own = [of(divided("w", tensor, rank, 3), array, begin, shape=(6, 4)) for rank in range(3)]
    for place, whole in enumerate(of(Part("w"), array, begin, shape=(6, 4))):
        np.testing.assert_allclose(sum(each[place] for each in own), whole, rtol=1e-9)
    assert DATA != TENSOR


def test_a_table_is_read_by_rows():
    begin, array = changed((50, 3))
    by_rows = [table((50, 3), lambda a, b, of=each: of[a:b], 8) for each in (array, begin)]
    assert projected(Part("w"), (50, 3), *by_rows, 5)[1] == pytest.approx(
        projected(Part("w"), (50, 3), array, begin, 5)[1]
    )


def test_rows_that_changed_are_counted():
    begin, _ = changed((50, 3))
    array = begin.copy()
    array[[3, 17, 17, 49], [0, 1, 2, 1]] += 1e-6
    for given in (
        (array, begin),
        [table((50, 3), lambda a, b, of=of: of[a:b], 8) for of in (array, begin)],
    ):
        assert projected(Part("w"), (50, 3), *given, 5)[3] == 3


def test_seed_name_and_place_decide_the_signs():
    begin = np.zeros((2, 3 * BLOCK), "float32")
    array = np.ones_like(begin)
    found = {
        (seed, name): tuple(projected(Part(name), array.shape, array, begin, seed)[1])
        for seed in (1, 2)
        for name in ("a", "b")
    }
    assert len(set(found.values())) == 4
    for sums in found.values():  # each a sum of 98,304 random signs
        assert max(map(abs, sums)) < 5 * math.sqrt(array.size)
    swapped = array * np.where(np.arange(array.size).reshape(array.shape) % 2, 1, 3)
    assert projected(Part("a"), array.shape, swapped, begin, 1)[1] != list(found[1, "a"])


def test_the_distance_of_two_changes_is_estimated_within_a_factor():
    begin, one = changed((200, 50))
    estimates = []
    for seed in range(200):
        noise = np.random.RandomState(1000 + seed).standard_normal(one.shape).astype("float32")
        other = one + np.float32(0.01) * noise
        pair = [of(Part("w"), each, begin, seed, one.shape)[1] for each in (one, other)]
        far = math.sqrt(float(((pair[0] - pair[1]) ** 2).mean()))
        estimates.append(far / float(np.linalg.norm(other.astype("float64") - one)))
    assert len(pair[0]) == PROJECTIONS
    assert np.mean(np.square(estimates)) == pytest.approx(1, abs=0.15)
    assert np.mean([1 / 1.8 < each < 1.8 for each in estimates]) > 0.9


AT_ITS_LIMIT = """
import resource
import numpy as np
from dlperf.contract.ownership import Part
from dlperf.contract.projection import projected
begin = np.arange(20000, dtype="float32")
(size,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmData"))
limit = 1024 * int(size) + (8 << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
print(projected(Part("w"), begin.shape, 2 * begin, begin, 3)[0])
"""


def test_a_process_at_its_limit_of_memory_is_projected_too():
    """OpenBLAS takes 32 MB for a product with a matrix, and tries for ever or ends the process."""
    environ = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", AT_ITS_LIMIT]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == sum(each**2 for each in range(20000))
