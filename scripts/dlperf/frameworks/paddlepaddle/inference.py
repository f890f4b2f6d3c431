"""Inference in PaddlePaddle: what all workloads do alike.

Dygraph without gradients, or paddle.inference's predictor on the saved program: weights become
constants, batch-norm is folded into convolutions, and on a CPU oneDNN has fused operators (5 times
as fast). A predictor gives outputs that are done: its steps wait.
"""

import os
import tempfile

import paddle
from paddle import inference

from dlperf import frameworks
from dlperf.contract.work import Inference, Queued, feed
from dlperf.frameworks.paddlepaddle import training
from dlperf.workloads.inputs import open_batches


def infer(run, network, outputs, weights, put, spec, layout="", parity=None):
    """The Inference of `network`, in evaluation mode.

    outputs(run, network): a layer that gives a batch's outputs. spec: InputSpecs of those first
    arrays of a batch that it takes. put, layout: as of training.train.
    """
    parameters = sum(p.size for p in training.trained(network))
    if run.amp:
        network = paddle.amp.decorate(network, level="O2", dtype=frameworks.half(run))
    layer, made = outputs(run, network), []

    def forward(batch):
        if not made:  # by the first batch the weights are there
            made.append(layer if run.compiler == "none" else frozen(run, layer, spec))
        with paddle.no_grad(), autocast(run):
            return made[0](*batch[: len(spec)])

    synchronize = paddle.device.synchronize if run.cuda else lambda: None
    queued = Queued(training.to_host, synchronize)
    batches = open_batches(run, layout)
    next_batch = feed(batches, lambda *batch: put(run, *batch))
    return Inference(
        step=lambda: queued.add(forward(next_batch())),
        wait=queued.wait,
        outputs=queued.outputs,
        answer=lambda *batch: training.to_host(forward(put(run, *batch))),
        parameters=parameters,
        batches=batches,
        parity=dict(
            inference="no_grad" if run.compiler == "none" else "synchronous predictor",
            outputs_copied="at the end of the window",
            compute_dtype=training.computed_in(network),
            **parity or {},
        ),
        weights=weights,
    )


def autocast(run):
    dtype = frameworks.half(run) if run.amp else "float16"  # which is not looked at then
    return paddle.amp.auto_cast(enable=run.amp, level="O2", dtype=dtype)


def frozen(run, layer, spec):
    """A predictor of a layer as it is now: from tensors to the output, a tensor of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        with autocast(run):
            paddle.jit.save(layer, path, input_spec=spec)
        config = inference.Config(path + ".json", path + ".pdiparams")
        config.disable_glog_info()
        if run.cuda:
            config.enable_use_gpu(100, 0)  # MiB to begin with
        else:
            config.disable_gpu()
            config.set_cpu_math_library_num_threads(run.cores_per_device)
        if not run.cuda and not run.float64:  # which oneDNN has not
            config.enable_mkldnn()
        else:
            config.disable_mkldnn()
        if run.compiler == "cinn":
            config.enable_cinn()
        predictor = inference.create_predictor(config)

    return lambda *batch: predictor.run(list(batch))[0].clone()
