"""JAX: convolutions written as products, what a program is said to be, tables."""

import json
import os
import subprocess
from pathlib import Path

import in_framework

from dlperf.frameworks import jax

ROOT = Path(__file__).resolve().parents[2]

COMPARE = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from dlperf.workloads.resnet50.jax import convolution

settings = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
random = np.random.RandomState(0)
for px, size, stride in ((2, 3, 1), (4, 3, 2), (3, 3, 2), (2, 1, 1), (5, 1, 2), (4, 3, 1)):
    x, kernel = random.randn(2, px, px, 6), random.randn(size, size, 6, 5)
    padding = [(size // 2, size // 2)] * 2

    def ours(x, kernel):
        return convolution(x, kernel, (stride, stride), padding, **settings)

    def xlas(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), padding, **settings)

    y, back = jax.vjp(ours, x, kernel)
    expected, expected_back = jax.vjp(xlas, x, kernel)
    g = random.randn(*expected.shape)
    for one, other in zip((y, *back(g)), (expected, *expected_back(g)), strict=True):
        assert one.shape == other.shape, (px, size, stride, one.shape, other.shape)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
"""


def test_convolutions_as_products_are_xlas_own(environments):
    python = ROOT / "results" / "environments" / "jax.cpu" / "bin" / "python"
    environ = dict(os.environ, PYTHONPATH=str(ROOT / "scripts"), JAX_PLATFORMS="cpu")
    done = subprocess.run([python, "-c", COMPARE], env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_op_by_op_is_refused_with_its_reason():
    case = {"compiler": "none", "device": "cpu", "precision": "fp32"}
    assert "jit" in jax.unsupported(case)
    assert not jax.unsupported(dict(case, compiler="xla"))


COUNTED = '''
from dlperf.frameworks.jax.training import counts
print(counts("""
  %f = f32[2] fusion(%a), kind=kLoop
  %c = (f32[2], u8[0]) custom-call(%a, %b), custom_call_target="__cudnn$convForward"
  %d = (f32[2], u8[0]) custom-call(%a, %b), custom_call_target="__cudnn$convForward"
  %g = f32[2] custom-call(%a, %b), custom_call_target="__cublas$gemm"
  %s = f32[2] all-reduce-start(%g), to_apply=%sum
  %e = f32[2] all-reduce-done(%s)
"""))
'''


def test_library_calls_of_a_gpus_program_are_counted_by_name(environments):
    said = in_framework.printed(in_framework.rank("jax"), COUNTED, environments / "jax.cpu")
    assert said.strip() == (
        "1 fusions, 0 convolutions, 0 dots, 1 all-reduces, 1 __cublas$gemm, 2 __cudnn$convForward"
    )


STEP = """
import functools
import jax, numpy as np
from dlperf.frameworks.jax import training as framework
from dlperf.workloads.wide_deep import jax as page

network = page.model(run)
optimizer, weights = page.optimizer(run, network), page.weights(run, network)
shapes = weights.shapes
lookups = page.lookups if run.dimensions["adam"] == "lazy" else None
step = functools.partial(
    framework.update, run, network, page.loss, optimizer, lookups, weights, None
)
batch = tuple(jax.ShapeDtypeStruct(*each) for each in page.shapes(run, run.batch_size))
state = jax.eval_shape(optimizer.init, shapes)
step = jax.jit(step, donate_argnums=(0, 1, 2))
needed = step.lower(shapes, state, framework.first_key(run), (batch,)).compile().memory_analysis()
print(json.dumps([needed.alias_size_in_bytes, needed.temp_size_in_bytes]))
"""


def test_a_lazy_step_writes_tables_in_place_and_needs_no_other_array_of_their_size(environments):
    dimensions = {"vocabulary": 4 * 10**6, "width": 4, "layers": 1, "adam": "lazy"}
    dimensions["tables"] = "replicated"
    run = in_framework.rank("jax", "wide_deep", dimensions=dimensions)
    table = 4 * 4 * dimensions["vocabulary"]
    in_place, more = json.loads(in_framework.printed(run, STEP, environments / "jax.cpu"))
    assert in_place > 3 * table
    assert more < table / 16


SUMMED = """
import jax, numpy as np
from dlperf.contract.work import Rows
from dlperf.frameworks.jax import sparse

rows = Rows(np.int32([3, 1, 3, 0]), np.float32([[1, 2], [3, 4], [5, 6], [7, 8]]))
ids, sums = jax.jit(lambda rows: sparse.summed(rows, 5))(rows)
table = sparse.apply_updates({"table": jax.numpy.zeros((5, 2))}, {"table": Rows(ids, sums)})
print(json.dumps([ids.tolist(), sums[:3].tolist(), table["table"].tolist()]))
"""


def test_an_id_has_the_sum_of_its_rows_and_what_fills_up_is_beyond_the_table(environments):
    found = in_framework.printed(in_framework.rank("jax"), SUMMED, environments / "jax.cpu")
    ids, sums, table = json.loads(found)
    assert ids == [0, 1, 3, 5]
    assert sums == [[7, 8], [3, 4], [6, 8]]
    assert table == [[7, 8], [3, 4], [0, 0], [6, 8], [0, 0]]
