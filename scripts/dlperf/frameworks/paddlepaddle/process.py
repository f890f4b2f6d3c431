"""A rank's process under PaddlePaddle: how it starts, what it says of itself, how it ends."""

import os

from dlperf.contract.run import Unsupported
from dlperf.contract.timer import HostTimer
from dlperf.frameworks import gpus

# Gradients that are added to one in place, as PaddleClas has it; a user's own setting stays.
ADDED_IN_PLACE = "FLAGS_max_inplace_grad_add"


def environment(run):
    variables = {
        # at worst minutes, not half an hour, for a peer that never comes
        "FLAGS_stop_check_timeout": "300",
    }
    if run.cuda:
        variables.update(
            FLAGS_selected_gpus="0",  # a rank sees its own card only
            FLAGS_cudnn_exhaustive_search="1",
            FLAGS_cudnn_batchnorm_spatial_persistent="1",
            FLAGS_conv_workspace_size_limit="4000",
        )
        variables[ADDED_IN_PLACE] = os.environ.get(ADDED_IN_PLACE, "8")
    else:  # a build for CUDA does not know this flag
        onednn = run.compiler == "static" and not run.float64  # which oneDNN has not
        variables["FLAGS_use_onednn"] = "1" if onednn else "0"
    if run.distributed:
        # what paddle.distributed.launch sets
        variables.update(
            PADDLE_TRAINER_ID=str(run.rank),
            PADDLE_TRAINERS_NUM=str(run.ranks),
            PADDLE_LOCAL_RANK=str(run.local_rank),
            PADDLE_TRAINER_ENDPOINTS=",".join(run.peers),
            PADDLE_CURRENT_ENDPOINT=run.peers[run.rank],
            PADDLE_MASTER="%s:%d" % (run.address, run.port),
            PADDLE_DISTRI_BACKEND="nccl" if run.cuda else "gloo",
        )
    return variables


def services(run):
    return []


def start(run):
    import paddle

    if run.cuda:
        seen = paddle.device.cuda.device_count()
        gpus.require("PaddlePaddle", paddle.is_compiled_with_cuda(), seen)
    if run.float64:
        paddle.set_default_dtype("float64")
    paddle.set_device("gpu:0" if run.cuda else "cpu")
    if run.cuda:
        paddle.base.core.set_cublas_switch(run.tf32)
        paddle.base.core.set_cudnn_switch(run.tf32)
    if run.compiler == "cinn" and not paddle.is_compiled_with_cinn():
        raise Unsupported("CINN is not compiled into this PaddlePaddle")
    if run.distributed:
        if run.rank > 0:  # else it finds nobody there, and sleeps for three seconds
            run.wait_for_port()
        paddle.distributed.init_parallel_env()
    paddle.seed(run.dropout_seed)


def step_timer(run):
    # version 2's Event.elapsed_time gives 0
    return EventTimer() if run.cuda and version() >= 3 else HostTimer()


def version():
    """The first number of Paddle's version."""
    import paddle

    return int(paddle.__version__.partition(".")[0])


def memory(run):
    import paddle

    if not run.cuda:
        return {"device_peak_bytes": None, "device_total_peak_bytes": None}
    return {
        "device_peak_bytes": paddle.device.cuda.max_memory_allocated(),
        # the allocator's cache included; not the context, cuDNN and NCCL
        "device_total_peak_bytes": paddle.device.cuda.max_memory_reserved(),
    }


def parity(run):
    import paddle

    from dlperf.frameworks.paddlepaddle import FRAMEWORK

    facts = {
        "framework_version": paddle.__version__,
        "compiler_detail": FRAMEWORK.compilers[run.compiler],
        "cinn": paddle.is_compiled_with_cinn(),
        "collective": paddle.distributed.get_backend().lower() if run.distributed else None,
    }
    if run.cuda:
        core = paddle.base.core
        facts.update(
            autotune=flag("FLAGS_cudnn_exhaustive_search"),
            max_inplace_grad_add=flag(ADDED_IN_PLACE),
            tf32_matmul=core.get_cublas_switch(),
            tf32_convolution=core.get_cudnn_switch(),
            cuda_version=paddle.version.cuda(),
            cudnn_version=paddle.version.cudnn(),
        )
    else:
        facts.update(autotune=None, onednn=flag("FLAGS_use_onednn"))
    return facts


def flag(name):
    import paddle

    return paddle.get_flags(name)[name]


def stop(run):
    import paddle

    if run.distributed:
        paddle.distributed.destroy_process_group()


class EventTimer:
    """Device time between steps, from CUDA events queued with the work and read after it."""

    clock = "device"

    def __init__(self):
        self._events = []

    def mark(self):
        import paddle

        event = paddle.device.Event(enable_timing=True)
        event.record()
        self._events.append(event)

    def seconds(self):
        """Seconds of each step: one less than the marks; all work must be done."""
        pairs = zip(self._events, self._events[1:])
        return [before.elapsed_time(after) / 1000.0 for before, after in pairs]
