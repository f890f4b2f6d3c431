"""Edits that several workloads have."""

from edits import Replace

#: Of all parameters, in place of those of two dimensions and more.
DECAY_ON_BIASES_IN_PYTORCH = Replace(
    "by_decay",
    "[{'params': _more, 'weight_decay': _decay}, {'params': _one, 'weight_decay': 0.0}]",
    "[{'params': _more, 'weight_decay': _decay}, {'params': _one, 'weight_decay': _decay}]",
)
#: Inference in training mode.
TRAINING_MODE = Replace("inference", "model(run).eval()", "model(run)")
#: A micro-step's loss is not divided by how many there are; by framework.
SUMMED_MICRO_STEPS = {
    "pytorch": Replace("train.backward", "_value / run.accumulation", "_value"),
    "oneflow": Replace("eager.forward", "_value / run.accumulation", "_value"),
    "tensorflow1": Replace("updates", "_total / run.accumulation", "_total"),
    "jax": Replace("update", "jax.tree.map(lambda _g: _g / run.accumulation, _sums)", "_sums"),
}
