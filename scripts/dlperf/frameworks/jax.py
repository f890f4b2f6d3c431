import os
TITLE = "JAX"
COMPILERS = {"none": "op by op", "xla": "jit"}
DEFAULT_COMPILER = {"cpu": "xla", "cuda": "xla"}


def unsupported(case):
    return ""


def environment(run):
    v = {"JAX_PLATFORMS": "cpu", "NPROC": str(len(run.cores))}
    v["XLA_FLAGS"]=os.environ.get("XF","")
    return v


def services(run):
    return []


def start(run):
    pass


def step_timer(run):
    from dlperf.measure.timer import HostTimer
    return HostTimer()


def memory(run):
    return {"device_peak_bytes": None, "device_total_peak_bytes": None}


def parity(run):
    return {}


def stop(run):
    pass
