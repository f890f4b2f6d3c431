"""The first ten minutes on a card, with the packages that the machine has: records and a table.

    python benchmarks/first_gpu.py --out gpu                        # one after the other
    python benchmarks/first_gpu.py --out gpu --certify              # certificates too
    python benchmarks/first_gpu.py --out cpu --device cpu --small   # the same list, tiny, on a CPU

Run it with the Python that has torch or jax; nothing else but NumPy is needed, and no network.
ResNet-50 and BERT-Base train in PyTorch (eager, Inductor) and JAX, in mixed precision, TF32 and
fp32; then comes a batch that must be `oom`. Each has a time limit, and what fails is a row of the
table too. Out: <out>/runs/… (records, where a round has them; a record that is ok is not made
again), <out>/node.json (what the card reaches, if torch is there), <out>/results.md. It has not run
on a GPU yet.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from dlperf.analysis.round.calibration.multiplied import peak_precision  # noqa: E402
from dlperf.measure import by_hand, host  # noqa: E402
from dlperf.scenarios import train  # noqa: E402
from dlperf.workloads.cases import case_of  # noqa: E402

PACKAGES = {"pytorch": "torch", "jax": "jax"}
WAYS = (("pytorch", "none"), ("pytorch", "inductor"), ("jax", "xla"))
PRECISIONS = ("amp", "tf32", "fp32")
BATCHES = {"resnet50": 256, "bert": 64}
SMALL = {
    "resnet50": {"batch_size": 2, "image_size": 32},
    "bert": {"batch_size": 1, "sequence_length": 16},
}
#: A batch that no card holds: on a CPU, so large that the allocation itself is refused.
TOO_LARGE = {"cuda": 4096, "cpu": 1 << 30}
DATA = {"resnet50": "sample", "bert": "prose"}  # that certificates train on
HEAD = ("case", "status", "throughput", "step", "MFU stated / measured", "memory", "energy", "in")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of what is written")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes and few steps")
    parser.add_argument("--workload", nargs="+", choices=sorted(BATCHES), default=list(BATCHES))
    parser.add_argument("--framework", nargs="+", choices=sorted(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--limit", type=int, default=120, help="seconds a case (default: 120)")
    parser.add_argument("--certify", action="store_true", help="make certificates afterwards")
    parser.add_argument("--data", type=Path, default=ROOT / "results/data", help="for certificates")
    asked = parser.parse_args()
    if asked.device == "cuda" and not host.visible_gpus():
        sys.exit("error: no GPU is visible; to try this on a CPU: --device cpu --small")
    asked.out.mkdir(parents=True, exist_ok=True)
    rows, peaks = [], calibrate(asked)
    for title, options in cases(asked):
        rows.append(measure(title, options, asked, peaks))
        write(asked, rows)
    if asked.certify:
        for workload in asked.workload:
            for row in certificates(workload, asked):
                rows.append(row)
                write(asked, rows)
    print("->", asked.out / "results.md")


def cases(asked):
    """(title, values by key) of each case: all in mixed precision first."""
    for precision in PRECISIONS:
        for workload in asked.workload:
            for framework, compiler in WAYS:
                if framework in asked.framework:
                    title = f"{workload} {framework}-{compiler} {precision}"
                    yield title, of(workload, framework, compiler, precision, asked)
    workload, framework = asked.workload[0], asked.framework[0]
    compiler = next(compiler for name, compiler in WAYS if name == framework)
    values = of(workload, framework, compiler, "fp32", asked)
    values["batch_size"] = TOO_LARGE[asked.device]
    yield f"{workload} {framework}-{compiler} fp32, must be oom", values


def of(workload, framework, compiler, precision, asked):
    values = {
        "workload": workload,
        "framework": framework,
        "compiler": compiler,
        "precision": precision,
        "device": asked.device,
        "round": "first-gpu",
        "timeout_seconds": asked.limit,
        "batch_size": BATCHES[workload],
    }
    if asked.small:
        values.update(SMALL[workload], warmup_steps=1, measured_steps=2, cores_per_device=1)
    return values


def run(command, limit):
    """The command's end: (exit status, its last line); no more than `limit` seconds."""
    environ = dict(os.environ)
    own = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "scripts"), own)))
    try:
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return 124, f"not done after {limit} s"
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def measure(title, values, asked, peaks):
    """A row: the record of a case, or why there is none."""
    if importlib.util.find_spec(PACKAGES[values["framework"]]) is None:
        return said(title, f"no {PACKAGES[values['framework']]} in this Python")
    try:
        document = by_hand.document(values)
    except by_hand.Mistake as mistake:
        return said(title, f"unsupported: {mistake}")
    path = asked.out / "runs" / case_of(document["identity"]).folder / "rep1.json"
    record = read(path)
    if record.get("status") != "ok" or record.get("settings") != document["settings"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["dlperf.measure", "--case", json.dumps(document), "--out", path]
        status, last = run(command, asked.limit + 60)
        record = read(path)
        if status or not record:
            return said(title, f"no record: {last}")
    if record["status"] != "ok":
        return said(title, f"{record['status']}: {record['reason']}")
    return row(title, record, peaks)


def row(title, record, peaks):
    """What a record says, as a row of the table."""
    case, parity = case_of(record["identity"]), record["parity"]
    precision = peak_precision(parity, case.precision, record["settings"]["device"])
    gpus = record["host"].get("gpus_before") or [{}]
    stated = stated_peaks(str(gpus[0].get("name") or "")).get(precision)
    achieved, memory = train.tflops(record, case), train.memory(record, case)
    energy = train.energy(record, case)
    shares = [achieved / peak if peak else None for peak in (stated, peaks.get(precision))]
    return (
        title,
        "ok",
        f"{train.throughput(record, case):.1f} {record['unit']}/s",
        f"{train.step_time(record, case):.2f} ms",
        " / ".join("–" if share is None else f"{share:.1%}" for share in shares),
        "–" if memory is None else f"{memory:.2f} GiB",
        "–" if energy is None else f"{energy:.3f} J",
        str(parity.get("compute_dtype", "–")),
    )


def said(title, status):
    """A row of what has no numbers."""
    return (title, " ".join(status.split())[:200], *["–"] * (len(HEAD) - 2))


def read(path):
    """A record, {} where there is none."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def stated_peaks(name, path=ROOT / "config/peaks.yaml"):
    """{precision: dense TFLOP/s} of a card by NVML's name; without YAML, as only NumPy is there."""
    name = name.replace("NVIDIA ", "").replace("Tesla ", "")
    for entry in re.split(r"\n  (?=\S)", path.read_text()):
        names = re.search(r"names: \[(.*)\]", entry)
        peaks = re.search(r"dense_tflops: \{(.*)\}", entry)
        if names and peaks and name in names.group(1).split(", "):
            return {key: float(value) for key, value in re.findall(r"(\w+): ([\d.]+)", peaks[1])}
    return {}


def calibrate(asked):
    """{precision: TFLOP/s of products} that the device reaches; {} without PyTorch."""
    path = asked.out / "node.json"
    if importlib.util.find_spec("torch") and read(path).get("status") != "ok":
        print(run(["dlperf.measure.probe", "--device", asked.device, "--out", path], 300)[1])
    return {
        each["precision"]: each["flops"] / min(each["seconds"]) / 1e12
        for rank in read(path).get("ranks", ())
        for each in rank["measured"]
        if each["what"] == "gemm"
    }


def certificates(workload, asked):
    """A row a certificate; PyTorch on the CPU makes the reference."""
    data = asked.data / DATA[workload]
    title = f"certificates of {workload}"
    if not (data / "manifest.json").exists():
        return [said(title, f"no {data}: copy it from a machine that has made it")]
    reference = asked.out / "certificates" / workload / "reference"
    same = ["--workload", workload, "--data-dir", data]
    if read(reference / "manifest.json").get("status") != "ok":
        last = run(["dlperf.certify.reference", *same, "--out", reference], 1800)[1]
        if read(reference / "manifest.json").get("status") != "ok":
            return [said(title, f"no reference: {last}")]
    return (
        certificate(same, reference, framework, compiler, precision, asked)
        for framework, compiler in WAYS
        for precision in PRECISIONS
        if framework in asked.framework
        and importlib.util.find_spec(PACKAGES[framework])
        and not (precision == "tf32" and asked.device == "cpu")
    )


def certificate(same, reference, framework, compiler, precision, asked):
    title = f"certificate of {same[1]} {framework}-{compiler} {precision}"
    identity = by_hand.document(of(same[1], framework, compiler, precision, asked))["identity"]
    out = asked.out / case_of(identity).certificate(asked.device)
    out.parent.mkdir(parents=True, exist_ok=True)
    way = ["--framework", framework, "--compiler", compiler, "--precision", precision]
    options = ["--device", asked.device, "--reference", reference, "--out", out]
    last = run(["dlperf.certify", *same, *way, *options], 900)[1]
    found = read(out)
    if not found:
        return said(title, f"no certificate: {last}")
    failed = [tier["name"] for tier in found["tiers"] if tier["passed"] is False]
    return said(title, "passed" if found["passed"] else f"NOT PASSED: {', '.join(failed)}")


def write(asked, rows):
    """The table as Markdown, after each row, which is printed."""
    gpus = host.gpu_facts(host.visible_gpus()[:1]) if asked.device == "cuda" else []
    name = gpus[0]["name"] if gpus else host.facts()["cpu"]
    lines = [f"One device, {name}.", "", f"| {' | '.join(HEAD)} |", "|---" * len(HEAD) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]
    (asked.out / "results.md").write_text("\n".join(lines) + "\n")
    print(lines[-1], flush=True)


if __name__ == "__main__":
    main()
