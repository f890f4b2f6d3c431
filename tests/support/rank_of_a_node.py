"""A rank that trains nothing: it meets the others and says what it was started with.

Takes the place of `dlperf.measure.rank` where the framework cannot be had. Its facts have the form
of a training's, so that the stopwatch makes a record of them.
"""

import dataclasses
import json
import os
import sys
import time

from dlperf import frameworks, workloads
from dlperf.contract import files
from dlperf.contract.run import Run
from dlperf.measure import beside
from dlperf.measure.meeting import Guest

watch = beside.Watch()
run = Run.load(sys.argv[1])
guest = Guest(run.meeting, run.rank)
_, [[_, steps]], trial_steps = guest.wait("orders")
if trial_steps:
    guest.wait("trial")
    time.sleep(0.05 * trial_steps)
    steps = guest.wait("paced")
guest.wait("window")
begin = time.perf_counter()
time.sleep(0.05 * steps)
window = {
    "rank": run.rank,
    "node": os.uname().nodename,
    "start": begin,
    "end": time.perf_counter(),
    "queued": 0.0,
}
guest.note("ended")
guest.wait("end")
facts = {
    "status": "ok",
    "window": window,
    "loss": [0.5],
    "clock": "host",
    "seconds": [0.05] * steps,
    "loader_seconds": 0.0,
    "warmup_seconds": 0.1,
    "memory": {
        "rank": run.rank,
        "host_peak_rss_bytes": 1 << 20,
        "device_peak_bytes": None,
        "device_total_peak_bytes": 7 << 20,
    },
    "parity": {
        "precision": run.precision,
        "compiler": run.compiler,
        "parameters": workloads.parameter_count(run.workload, run.dimensions),
        "visible": os.environ["CUDA_VISIBLE_DEVICES"],
        "devices": run.devices,
        "global_batch_size": run.global_batch_size,
        "cores": len(os.sched_getaffinity(0)),
    },
    "ran_beside": watch.facts(frameworks.of(run.framework)),
    "weights": {"rank": run.rank, "sha256": "0" * 64, "change": 0.1, "unchanged": 0},
    "parts": [dataclasses.astuple(each) for each in workloads.parts_of(run)],
}
files.write(run.result, json.dumps(facts))
