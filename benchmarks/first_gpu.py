"""The first minutes on a card, with the packages that the machine has: records and a table.

    python benchmarks/first_gpu.py --out gpu                        # one after the other
    python benchmarks/first_gpu.py --out gpu --part first           # ten to fifteen minutes of it
    python benchmarks/first_gpu.py --out gpu --certify              # certificates too
    python benchmarks/first_gpu.py --out cpu --device cpu --small   # the same list, tiny, on a CPU
    python benchmarks/first_gpu.py --out gpu --list                 # the list alone

Run it with the Python that has torch or jax; nothing else but NumPy is needed, and no network.
`first`: ResNet-50 and BERT-Base train in PyTorch (eager, Inductor) and JAX, in mixed precision,
TF32 and fp32; then come a batch that must be `oom`, certificates if asked for, and whether a step
of PyTorch waits for the card. `others`: Wide & Deep, both phases of ELECTRA, its fine-tuning, GPT;
inference, a server, and trainings to a quality (on data that the workflow makes elsewhere). Each
has a time limit, and what fails is a row of the table too. Out: <out>/runs/… (records, where a
round has them; a record that is ok is not made again), <out>/node.json (what the card reaches, if
torch is there), <out>/results.md. What it gave: docs/gpu-by-hand.md.
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

from dlperf import frameworks, scenarios, workloads  # noqa: E402
from dlperf.analysis.round.calibration.multiplied import peak_precision  # noqa: E402
from dlperf.contract.case import made_as  # noqa: E402
from dlperf.measure import by_hand, host  # noqa: E402
from dlperf.scenarios import quality, train  # noqa: E402
from dlperf.workloads.cases import case_of  # noqa: E402

PACKAGES = {"pytorch": "torch", "jax": "jax"}
WAYS = (("pytorch", "none"), ("pytorch", "inductor"), ("jax", "xla"))
PRECISIONS = ("amp", "tf32", "fp32")
PARTS = ("first", "others")
BATCHES = {"resnet50": 256, "bert": 64}
SMALL = {
    "resnet50": {"batch_size": 2, "image_size": 32},
    "bert": {"batch_size": 1, "sequence_length": 16},
    "wide_deep": {"batch_size": 2, "vocabulary": 20000, "layers": 1},
    "electra": {"batch_size": 1, "sequence_length": 16},
    "electra_squad": {"batch_size": 1, "sequence_length": 16},
    "gpt": {"batch_size": 1, "width": 32, "layers": 2, "heads": 2, "sequence_length": 16},
    "insightface": {"batch_size": 2, "backbone": "y1", "num_classes": 1000, "image_size": 32},
}
#: Beside the first ones, as config/rounds/one-gpu.yaml has them; compiled as users do by default.
OTHERS = (
    {"workload": "wide_deep", "batch_size": 16384, "layers": 2, "precision": "fp32"},
    {"workload": "electra", "batch_size": 176},
    {"workload": "electra", "batch_size": 24, "sequence_length": 512},
    {"workload": "electra_squad", "batch_size": 32},
    {"workload": "gpt", "batch_size": 8},
    {"workload": "insightface", "batch_size": 64, "precision": "fp32"},
    {"workload": "resnet50", "scenario": "infer", "batch_size": 1},
    {"workload": "resnet50", "scenario": "infer", "batch_size": 256},
    {"workload": "bert", "scenario": "infer", "batch_size": 8},
    {"workload": "wide_deep", "scenario": "infer", "batch_size": 512, "layers": 2}
    | {"precision": "fp32"},
    {"workload": "electra_squad", "scenario": "infer", "batch_size": 1},
    {"workload": "gpt", "scenario": "infer", "batch_size": 8},
    {"workload": "resnet50", "scenario": "server", "batch_size": 1, "arrival_rate": 100},
    {"workload": "resnet50", "scenario": "quality", "batch_size": 32, "data": "digits"}
    | {"epochs": 6, "evaluations": 12, "image_size": 32},
    {"workload": "bert", "scenario": "quality", "batch_size": 64, "data": "sample"}
    | {"epochs": 200, "evaluations": 10},
    {"workload": "wide_deep", "scenario": "quality", "batch_size": 512, "data": "sample"}
    | {"epochs": 1, "evaluations": 10, "vocabulary": 20000, "layers": 2, "precision": "fp32"},
    {"workload": "electra", "scenario": "quality", "batch_size": 16, "data": "sample"}
    | {"epochs": 50, "evaluations": 10, "first_steps": 720},
)
#: Batches of an inference: the fewest of which a p99 can be told are 368.
INFERRED = {"warmup_steps": 20, "measured_steps": 400}
#: Sizes of a step that is looked through for waits.
WAITS = {"resnet50": {"image_size": 64}, "bert": {"sequence_length": 32}}
#: A batch that no card holds: on a CPU, so large that the allocation itself is refused.
TOO_LARGE = {"cuda": 4096, "cpu": 1 << 30}
DATA = {"resnet50": "sample", "bert": "prose"}  # that certificates train on
HEAD = ("case", "status", "throughput", "step, latency or score", "MFU stated / measured")
HEAD += ("memory", "energy", "in")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of what is written")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes and few steps")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS, help="of the list")
    parser.add_argument("--list", action="store_true", help="print the list, and measure nothing")
    names = workloads.NAMES
    parser.add_argument("--workload", nargs="+", choices=names, default=names)
    parser.add_argument("--framework", nargs="+", choices=sorted(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--limit", type=int, default=120, help="seconds a case (default: 120)")
    parser.add_argument("--certify", action="store_true", help="make certificates afterwards")
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT / "results/data",
        help="prepared data, of certificates and trainings to a quality",
    )
    asked = parser.parse_args()
    if asked.list:
        for part in asked.part:
            print(*(title for title, _ in CASES[part](asked)), sep="\n")
        return
    if asked.device == "cuda" and not host.visible_gpus():
        sys.exit("error: no GPU is visible; to try this on a CPU: --device cpu --small")
    asked.out, asked.data = asked.out.absolute(), asked.data.absolute()
    asked.out.mkdir(parents=True, exist_ok=True)
    peaks, rows = calibrate(asked), []
    for row in results(asked, peaks):
        rows.append(row)
        write(asked, rows)
    print("->", asked.out / "results.md")


def results(asked, peaks):
    """The rows of the table, in their order."""
    if "first" in asked.part:
        for title, values in first(asked):
            yield measure(title, values, asked, peaks)
        for workload in first_workloads(asked) if asked.certify else ():
            yield from certificates(workload, asked)
        yield from waits(asked)
    if "others" in asked.part:
        for title, values in others(asked):
            yield measure(title, values, asked, peaks)


def first_workloads(asked):
    return [workload for workload in BATCHES if workload in asked.workload]


def first(asked):
    """(title, values by key) of each case: all in mixed precision first."""
    for precision in PRECISIONS:
        for workload in first_workloads(asked):
            for framework, compiler in WAYS:
                if framework in asked.framework:
                    title = f"{workload} {framework}-{compiler} {precision}"
                    yield title, of(workload, framework, compiler, precision, asked)
    for workload in first_workloads(asked)[:1]:
        framework = asked.framework[0]
        compiler = next(compiler for name, compiler in WAYS if name == framework)
        values = of(workload, framework, compiler, "fp32", asked)
        values["batch_size"] = TOO_LARGE[asked.device]
        yield f"{workload} {framework}-{compiler} fp32, must be oom", values


def others(asked):
    """The same of the other workloads and scenarios, in the frameworks that have them."""
    seen = []
    for own in OTHERS:
        made = made_as(own.get("scenario", "train"))
        for framework in asked.framework if own["workload"] in asked.workload else ():
            if not workloads.implements(own["workload"], framework, made):
                continue
            compiler = frameworks.of(framework).default_compiler[asked.device]
            precision = own.get("precision", "amp")
            values = of(own["workload"], framework, compiler, precision, asked, own)
            if values in seen:  # what differs in size alone is one small case
                continue
            seen.append(values)
            what = f"{own['workload']} {values.get('scenario', 'train')}"
            sizes = f"batch {values['batch_size']}"
            if "sequence_length" in own:
                sizes += f", {own['sequence_length']} tokens"
            yield f"{what} {framework}-{compiler} {precision} {sizes}", values


CASES = {"first": first, "others": others}


def of(workload, framework, compiler, precision, asked, own=None):
    """The values of a case; `own` are those that only it has."""
    values = {
        "workload": workload,
        "framework": framework,
        "compiler": compiler,
        "precision": precision,
        "device": asked.device,
        "round": "first-gpu",
        "timeout_seconds": asked.limit,
        "batch_size": BATCHES.get(workload),
        **(own or {}),
    }
    scenario, trained = values.get("scenario", "train"), values.get("data", "synthetic")
    if scenario in ("infer", "server"):
        values.update(INFERRED)
    if asked.small:
        steps = 6 if scenario in ("infer", "server") else 2  # 6: the fewest that have a p50
        values.update(SMALL[workload], warmup_steps=1, measured_steps=steps, cores_per_device=1)
        if scenario == "server":
            values.update(batch_size=1, arrival_rate=2)
        if scenario == "quality":  # it is tested with as many, all over the test set
            values["batch_size"] = own["batch_size"]
            if "first_steps" in own:
                values.update(first_steps=1, second_length=2 * values["sequence_length"])
    if scenario == "quality":
        data = workloads.data(workload)[trained]
        steps = values["epochs"] * (data.samples // values["batch_size"])
        values.update(target=data.target, data_dir=by_root(asked.data / data.folder))
        values["measured_steps"] = 2 if asked.small else steps
        values["evaluations"] = min(values["evaluations"], values["measured_steps"])
    return values


def by_root(path):
    """A path as a round of this repository spells it, from its root, if it lies there."""
    path = path.absolute()
    return str(path.relative_to(ROOT)) if ROOT in path.parents else str(path)


def run(command, limit):
    """A Python's end, run from the root: (exit status, last line) after at most `limit` seconds."""
    environ = dict(os.environ)
    own = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "scripts"), own)))
    try:
        done = subprocess.run(
            [sys.executable, *map(str, command)],
            cwd=ROOT,
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
    folder = document["settings"]["data_dir"]
    if folder and not (ROOT / folder / "manifest.json").exists():
        return said(title, f"no {folder}: copy it from a machine that has made it")
    path = asked.out / "runs" / case_of(document["identity"]).folder / "rep1.json"
    record = read(path)
    if record.get("status") != "ok" or record.get("settings") != document["settings"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        command = ["-m", "dlperf.measure", "--case", json.dumps(document), "--out", path]
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
    # a server answers as many as come, and a training to a quality is tested on the way
    steady = case.scenario in ("train", "infer")
    achieved, memory = steady and train.tflops(record, case), train.memory(record, case)
    energy = train.energy(record, case)
    speed = quality.throughput if case.scenario == "quality" else train.throughput
    shares = [
        achieved / peak if peak and steady else None for peak in (stated, peaks.get(precision))
    ]
    return (
        title,
        "ok",
        f"{speed(record, case):.1f} {record['unit']}/s",
        shown(record, case),
        " / ".join("–" if share is None else f"{share:.1%}" for share in shares),
        "–" if memory is None else f"{memory:.2f} GiB",
        "–" if energy is None else f"{energy:.3f} J",
        str(parity.get("compute_dtype", "–")),
    )


def shown(record, case):
    """A step's time; of other scenarios what their tables show, but for throughput."""
    if case.scenario == "train":
        return f"{train.step_time(record, case):.2f} ms"
    found = []
    for name in scenarios.shown(case.scenario):
        metric = scenarios.metrics(case.scenario)[name].of(case.workload)
        value = metric.value(record, case) if name != "throughput" else None
        if value is not None:
            title, unit = metric.title, metric.unit_of(record["unit"])
            found.append(f"{title[:1].lower()}{title[1:]} {value:.2f} {unit}")
    return "; ".join(found) or "–"


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
        print(run(["-m", "dlperf.measure.probe", "--device", asked.device, "--out", path], 300)[1])
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
        last = run(["-m", "dlperf.certify.reference", *same, "--out", reference], 1800)[1]
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
    last = run(["-m", "dlperf.certify", *same, *way, *options], 900)[1]
    found = read(out)
    if not found:
        return said(title, f"no certificate: {last}")
    failed = [tier["name"] for tier in found["tiers"] if tier["passed"] is False]
    return said(title, "passed" if found["passed"] else f"NOT PASSED: {', '.join(failed)}")


def waits(asked):
    """A row for each kind of step that PyTorch looks for waits in (waits.py)."""
    if "pytorch" not in asked.framework or importlib.util.find_spec("torch") is None:
        return
    for workload in first_workloads(asked):
        for compiler in (compiler for framework, compiler in WAYS if framework == "pytorch"):
            for precision in ("amp", "amp_fp16"):  # what fp32 does is in these too
                title = f"waits of {workload} pytorch-{compiler} {precision}"
                values = of(workload, "pytorch", compiler, precision, asked, WAITS[workload])
                if not asked.small:
                    values.update(batch_size=8, warmup_steps=8, measured_steps=8)
                case = json.dumps(by_hand.document(values))
                status, last = run([ROOT / "benchmarks/waits.py", "--case", case], asked.limit + 60)
                none = "none" if asked.device == "cuda" else "nothing to look for on a CPU"
                yield said(title, last if status else none)


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
