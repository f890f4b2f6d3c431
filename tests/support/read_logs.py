"""Logs of upstream_logs.py, read by the command `log`: their cases, and the rows that come out."""

import csv
from pathlib import Path

from dlperf.analysis.__main__ import main

# what a global batch of 1 gives (upstream_logs.py): 100 steps in 20 s; the mean of single rates
CLOCK = 5.0

RESNET = ("workload=resnet50", "data=imagenet")

BERT = ("workload=bert", "data=wikipedia")


def case(*pairs: str, precision: str = "fp32", devices: int = 8, batch_size: int) -> list[str]:
    return [
        *pairs,
        f"precision={precision}",
        "nodes=1",
        f"devices_per_node={devices}",
        f"batch_size={batch_size}",
    ]


def imported(folder: Path, source: str, *logs: str | bytes, case: list[str], window, more=()):
    """The rows that `python -m dlperf.analysis log` makes of logs, or None where it refuses."""
    paths = [folder / f"rank{number}.log" for number in range(len(logs))]
    for path, log in zip(paths, logs, strict=True):
        path.write_bytes(log if isinstance(log, bytes) else log.encode())
    out = folder / "rows.csv"
    arguments = ["log", "--source", source, "--log", *map(str, paths), "--case", *case]
    arguments += ["--warmup", str(window[0]), "--measured", str(window[1])]
    if main([*arguments, "--out", str(out), *more]):
        return None
    with out.open(newline="") as stream:
        return list(csv.DictReader(stream))
