"""What ELECTRA's generator draws: words by the softmax of their scores."""

import json

import in_framework
import numpy as np
import pytest

#: Of 12 words; the rarest is drawn 26 times in 100,000.
SCORES = np.linspace(-3, 4, 12)
DRAWS = 100_000
#: A chi-squared variable of 11 degrees of freedom lies above this once in 10,000 times.
MOST = 37.4

HOW = {
    "pytorch": """
import torch
torch.manual_seed(run.seed)
found = page.sample(torch.from_numpy(scores)).numpy()
""",
    "jax": """
import jax
found = jax.jit(page.sample)(scores, jax.random.key(run.seed))
""",
    "mxnet": """
import mxnet as mx

class Samples(mx.gluon.HybridBlock):
    def hybrid_forward(self, F, scores):
        return page.sample(F, scores, run)

mx.random.seed(run.seed)
samples = Samples()
samples.hybridize(static_alloc=True, static_shape=True)
found = samples(mx.nd.array(scores.reshape((-1, scores.shape[-1])))).asnumpy()
""",
}
DRAWN = """
import numpy as np
page = workloads.load("electra", run.framework)
scores = np.broadcast_to(np.float32(%r), (2, %d, 12)).copy()
%s
print(json.dumps(np.bincount(np.ravel(found), minlength=12).tolist()))
"""


@pytest.mark.parametrize("framework", HOW)
def test_words_are_drawn_by_the_softmax_of_their_scores(framework, environments):
    run = in_framework.rank(framework, "electra")
    code = DRAWN % (SCORES.tolist(), DRAWS // 2, HOW[framework])
    counts = json.loads(in_framework.printed(run, code, environments / f"{framework}.cpu"))
    expected = DRAWS * np.exp(SCORES) / np.exp(SCORES).sum()
    assert sum(counts) == DRAWS
    assert ((counts - expected) ** 2 / expected).sum() < MOST
