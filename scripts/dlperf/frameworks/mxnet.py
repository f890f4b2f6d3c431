TITLE = "MXNet"
COMPILERS = {"none": "imperative", "static": "x"}
DEFAULT_COMPILER = {"cpu": "static", "cuda": "static"}


def unsupported(case):
    return ""


def environment(run):
    return {}


def services(run):
    return []


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
