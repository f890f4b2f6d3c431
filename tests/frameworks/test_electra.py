"""ELECTRA: words are drawn by softmax of their scores, by the noise of the framework itself."""

import json

import in_framework
import numpy as np
import pytest
from conftest import some_of

# Six scores, 100,000 times each; what a framework's tensors need is its own.
DRAWN = {
    "jax": "np.asarray(jax.jit(sample)(scores, jax.random.key(run.seed)))",
    "mindspore": "ms.jit(sample, fullgraph=True)(ms.Tensor(scores)).asnumpy()",
    "mxnet": "sample(mx.nd, mx.nd.array(scores), run).asnumpy().astype(int)",
    "oneflow": "sample(flow.from_numpy(scores)).numpy()",
    "paddlepaddle": "sample(paddle.to_tensor(scores)).numpy()",
    "pytorch": "sample(torch.from_numpy(scores)).numpy()",
    "tensorflow": "sample(tf.constant(scores)).numpy()",
    "tensorflow1": "tf.Session().run(sample(tf.constant(scores)))",
}
IMPORTS = {
    "jax": "jax",
    "mindspore": "mindspore as ms",
    "mxnet": "mxnet as mx",
    "oneflow": "oneflow as flow",
    "paddlepaddle": "paddle",
    "pytorch": "torch",
    "tensorflow": "tensorflow as tf",
    "tensorflow1": "tensorflow as tf",
}
CODE = """
import numpy as np
import %s
frameworks.load(run.framework).start(run)
from dlperf.workloads.electra.%s import sample
scores = np.tile(np.array([0.0, 2.0, -3.0, 1.5, -1.0, 2.0], np.float32), (100000, 1))
drawn = %s
assert drawn.shape == (100000,), drawn.shape
print(json.dumps(np.bincount(drawn, minlength=6).tolist()))
"""


@pytest.mark.parametrize("framework", some_of(DRAWN, "jax", "paddlepaddle"))
def test_words_are_drawn_by_softmax_of_their_scores(framework, environments):
    run = in_framework.rank(framework, "electra")
    code = CODE % (IMPORTS[framework], framework, DRAWN[framework])
    printed = in_framework.printed(run, code, environments / f"{framework}.cpu")
    counts = np.array(json.loads(printed.splitlines()[-1]))
    expected = np.exp([0.0, 2.0, -3.0, 1.5, -1.0, 2.0])
    expected *= counts.sum() / expected.sum()
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 25.7  # five degrees of freedom: one in ten thousand lies above
