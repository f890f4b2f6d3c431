"""Steps of a case for half a minute, while the card's power, clocks and reasons are read at 10 Hz.

    python benchmarks/watch.py --case case.json --out watched
    python benchmarks/watch.py --case case.json --out watched --seconds 60

In: a case of one rank in PyTorch or JAX, whose Python this is; on a CPU there is nothing to read,
and the steps run all the same. It is no repetition: nothing of it is a record, and nothing that is
timed by the stopwatch is watched so. Out: <out>/card.tsv (a row a reading), <out>/steps.tsv (a row
a step, by the device's clock only: by the host's it is the time to queue a step), <out>/watch.json
and <out>/watch.md: power, clocks, what held them down and for how long, the first hundred steps
beside the last, percentiles of steps.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "scripts")]

from card import state  # noqa: E402

from dlperf.contract.case import CaseError, load  # noqa: E402
from dlperf.measure import host  # noqa: E402
from dlperf.workloads.cases import known  # noqa: E402

#: Steps at each end that are compared, or half of all.
ENDS = 100
PERCENTILES = (1, 5, 25, 50, 75, 95, 99)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", required=True, help="case document: a path, or the JSON text")
    parser.add_argument("--out", type=Path, required=True, help="folder of what is written")
    parser.add_argument("--seconds", type=float, default=30, help="of the window (default: 30)")
    asked = parser.parse_args()
    if not 0 < asked.seconds < float("inf"):
        sys.exit(f"error: --seconds: {asked.seconds:g} [allowed: more than 0]")
    try:
        case = load(asked.case, known())
    except CaseError as error:
        sys.exit(f"error: {error}")
    devices = case["identity"]["nodes"] * case["identity"]["devices_per_node"]
    if devices > 1:
        sys.exit(f"error: --case: {devices} devices [allowed: 1]")
    asked.out.mkdir(parents=True, exist_ok=True)
    on_card = case["settings"]["device"] == "cuda"
    gpus = host.visible_gpus()[:1] if on_card else []
    if on_card and not gpus:
        sys.exit("error: no GPU is visible; to try this on a CPU, give a case of device cpu")
    (asked.out / "steps.json").unlink(missing_ok=True)
    command = [sys.executable, BENCHMARKS / "card/steps.py", "--case", json.dumps(case)]
    command += ["--out", asked.out, "--seconds", str(asked.seconds)]
    samples, source, problem = [], "", "a CPU has nothing to read"
    if gpus:
        with state.Watch(gpus[0]) as watch:
            status = subprocess.run(list(map(str, command)), env=os.environ).returncode
        samples, source, problem = watch.samples, watch.source, watch.problem
    else:
        status = subprocess.run(list(map(str, command)), env=os.environ).returncode
    if status:
        sys.exit(f"error: the steps ended with exit status {status}: see above")
    ran = json.loads((asked.out / "steps.json").read_text())
    found = dict(summary(ran, samples), source=source, problem=problem)
    (asked.out / "card.tsv").write_text(state.tsv(samples))
    (asked.out / "steps.tsv").write_text(steps_tsv(ran))
    (asked.out / "watch.json").write_text(json.dumps(found, indent=1) + "\n")
    (asked.out / "watch.md").write_text(markdown(found))
    print(markdown(found))


def summary(ran, samples):
    """What watch.json has, of steps.json and of samples of the card."""
    own = state.within(samples, ran["window_utc"])
    watts = [each.watts for each in own if each.watts is not None]
    found = {
        "samples_per_second": ran["samples_per_second"],
        "window_seconds": ran["window_seconds"],
        "steps": len(ran["seconds"]),
        "clock": ran["clock"],
        "readings": len(own),
        "watts": spread(watts),
        "joules_per_sample": statistics.fmean(watts) / ran["samples_per_second"] if watts else None,
        "sm_mhz": spread([each.sm_mhz for each in own if each.sm_mhz is not None]),
        "memory_mhz": spread([each.memory_mhz for each in own if each.memory_mhz is not None]),
        "celsius": spread([each.celsius for each in own if each.celsius is not None]),
        "reasons": state.reasons_of(own),
        "step_milliseconds": None,
        "last_over_first": None,
    }
    if ran["clock"] == "device" and len(ran["seconds"]) > 1:
        found["step_milliseconds"] = spread([1000 * each for each in ran["seconds"]])
        found["last_over_first"] = last_over_first(ran["seconds"])
    return found


def last_over_first(seconds):
    """How much longer the last steps take than the first, by their medians."""
    count = min(ENDS, len(seconds) // 2)
    first, last = (statistics.median(part) for part in (seconds[:count], seconds[-count:]))
    return {"steps": count, "ratio": last / first if first else None}


def spread(values):
    """{"mean", "min", "max", "p1" … "p99"}; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    found = {"mean": statistics.fmean(values), "min": ordered[0], "max": ordered[-1]}
    for percent in PERCENTILES:
        # the smallest value that so many per cent of all do not exceed
        found[f"p{percent}"] = ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
    return found


def steps_tsv(ran):
    """A row a step; nothing but the head where the clock is the host's."""
    seconds = ran["seconds"] if ran["clock"] == "device" else []
    lines = ["step\tseconds", *(f"{number}\t{each!r}" for number, each in enumerate(seconds, 1))]
    return "\n".join(lines) + "\n"


def markdown(found):
    """The summary for people."""
    lines = [
        f"{found['samples_per_second']:.1f} samples/s over {found['window_seconds']:.1f} s, "
        f"{found['steps']} steps; {found['readings']} readings"
        + (f" by {found['source']}." if found["readings"] else f" ({found['problem']})."),
        "",
        "| | mean | p1 | p50 | p99 | max |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    titles = {"watts": "power, W", "sm_mhz": "SM clock, MHz", "memory_mhz": "memory clock, MHz"}
    titles |= {"celsius": "temperature, °C", "step_milliseconds": "step, ms"}
    for key, title in titles.items():
        values = found[key]
        if values:
            cells = [f"{values[name]:.2f}" for name in ("mean", "p1", "p50", "p99", "max")]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    lines.append("")
    if found["reasons"]:
        shares = (f"{name} {share:.0%}" for name, share in found["reasons"].items())
        lines.append(f"Clocks were held down by: {', '.join(shares)} of the readings.")
    ends = found["last_over_first"]
    if ends and ends["ratio"]:
        lines.append(
            f"The last {ends['steps']} steps take {ends['ratio']:.4f} of the time of the first."
        )
    if found["clock"] != "device":
        lines.append("Steps have no spread: the clock is the host's, which times their queueing.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
