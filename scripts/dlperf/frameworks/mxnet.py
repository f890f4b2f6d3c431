import os

TITLE = "MXNet"
COMPILERS = {"none": "imperative", "static": "x"}
DEFAULT_COMPILER = {"cpu": "static", "cuda": "static"}


def unsupported(case):
    return ""


def environment(run):
    v = {"MXNET_STORAGE_FALLBACK_LOG_VERBOSE": "0"}
    if run.distributed:
        v.update(
            {
                "DMLC_ROLE": "worker",
                "DMLC_PS_ROOT_URI": run.address,
                "DMLC_PS_ROOT_PORT": str(run.ports[0]),
                "DMLC_NODE_HOST": run.address,
                "DMLC_NUM_WORKER": str(run.ranks),
                "DMLC_NUM_SERVER": os.environ.get("NS", "1"),
            }
        )
    return v


def services(run):
    if not run.distributed:
        return []
    argv = [run.interpreter, "-c", "import mxnet"]
    ns = int(os.environ.get("NS", "1"))
    return [("scheduler", argv, {"DMLC_ROLE": "scheduler"})] + [
        ("server %d" % i, argv, {"DMLC_ROLE": "server"}) for i in range(ns)
    ]


def start(run):
    import mxnet as mx

    mx.random.seed(run.seed)
    if run.amp:
        from mxnet.contrib import amp

        amp.init(target_dtype="bfloat16")


def step_timer(run):
    from dlperf.measure.timer import HostTimer

    return HostTimer()


def memory(run):
    return {"device_peak_bytes": None, "device_total_peak_bytes": None}


def parity(run):
    return {}


def stop(run):
    pass
