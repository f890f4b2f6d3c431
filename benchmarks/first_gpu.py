"""The first ten minutes on a card, with the packages that the machine has: records and a table.

    python benchmarks/first_gpu.py --out gpu                        # in ten minutes what fits
    python benchmarks/first_gpu.py --out gpu --minutes 0            # all of it, however long
    python benchmarks/first_gpu.py --out gpu --certify --minutes 60 # certificates too
    python benchmarks/first_gpu.py --out cpu --device cpu --small   # the same list, tiny, on a CPU
    python benchmarks/first_gpu.py --out gpu --list                 # the list alone

Run it with the Python that has torch or jax; nothing else but NumPy is needed, and no network.
`first`, the most telling things first: what nvidia-smi says; ResNet-50 and BERT-Base in mixed
precision (Inductor, JAX, eager); a profiled step of each; JAX's program beside the one that was
compiled without a card; BERT for half a minute with the card's power and clocks; what the card
reaches; CUDA graphs and cuDNN's search switched off; a padded vocabulary; TF32, waits, certificates
if asked for, spot checks, a batch that must be `oom`; float32. `others`: all other workloads and
scenarios. When the minutes are over it ends with what it has. What fails is a row of the table too;
what cannot be true is `suspect`, and then it ends with 1. Out: <out>/results.md; <out>/runs/…
(records, where a round has them; one that is ok is not made again); <out>/node.json, profiles,
watched, settings, checks. How to read it: docs/gpu-by-hand.md.
"""

import argparse
import functools
import json
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent
sys.path[:0] = [str(BENCHMARKS), str(ROOT / "scripts")]

from card import cases, programs, proofs, state, table  # noqa: E402
from card.cases import PACKAGES, first_workloads, of, ways  # noqa: E402
from card.running import Minutes, lacks, read, run, steps  # noqa: E402
from card.table import Entry  # noqa: E402

from dlperf import workloads  # noqa: E402
from dlperf.measure import by_hand, host  # noqa: E402
from dlperf.workloads.cases import case_of  # noqa: E402

WATCHED_SECONDS, COMPARED_SECONDS = 30, 10


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of what is written")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny sizes and few steps")
    parts = tuple(JOBS)
    parser.add_argument("--part", nargs="+", choices=parts, default=parts, help="of the list")
    parser.add_argument("--list", action="store_true", help="print the list, and measure nothing")
    names = workloads.NAMES
    parser.add_argument("--workload", nargs="+", choices=names, default=names)
    parser.add_argument("--framework", nargs="+", choices=sorted(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--minutes", type=float, default=10, help="of it all (default: 10; 0: any)")
    parser.add_argument("--limit", type=int, default=120, help="seconds a case (default: 120)")
    parser.add_argument("--certify", action="store_true", help="make certificates too")
    parser.add_argument(
        "--data",
        type=Path,
        default=ROOT / "results/data",
        help="prepared data, of certificates and trainings to a quality",
    )
    asked = parser.parse_args()
    if not 0 <= asked.minutes < float("inf"):
        sys.exit(f"error: --minutes: {asked.minutes:g} [allowed: 0 or more]")
    if asked.limit < 1:
        sys.exit(f"error: --limit: {asked.limit} [allowed: at least 1]")
    listed = [job for part in asked.part for job in JOBS[part](asked)]
    if asked.list:
        print(*(title for title, _ in listed), sep="\n")
        return
    if asked.device == "cuda" and not host.visible_gpus():
        sys.exit("error: no GPU is visible; to try this on a CPU: --device cpu --small")
    asked.out, asked.data = asked.out.absolute(), asked.data.absolute()
    asked.out.mkdir(parents=True, exist_ok=True)
    asked.time, entries, rows = Minutes(asked.minutes), [], []
    for entry in results(listed, asked):
        entries.append(entry)
        rows = write(asked, entries)
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    print("->", asked.out / "results.md")
    suspect = sum(status.startswith("suspect") for _, status, *_ in rows)
    if suspect:
        sys.exit(f"error: {suspect} of {len(rows)} rows are suspect: their figures cannot be true")


def results(listed, asked):
    """The entries of the table, in their order."""
    for title, job in listed:
        if asked.time.are_over():
            yield Entry(title, asked.time.said)
            continue
        try:
            yield from job()
        except Exception as error:  # a fault in one must not lose the rest
            yield Entry(title, f"failed: {type(error).__name__}: {error}")


# The list: (title, what gives its entries)


def first(asked):
    """Everything about ResNet-50 and BERT-Base; the most telling first."""

    def measured(found, **more):
        for title, values in found:
            yield title, functools.partial(measure, title, values, asked, **more)

    if asked.device == "cuda":
        yield "nvidia-smi", functools.partial(card_facts, asked)
    yield from measured(cases.mixed(asked))
    yield from profiles(asked)
    if "jax" in asked.framework:
        for workload in first_workloads(asked):
            title = f"program of {workload} jax-xla amp"
            yield title, functools.partial(compared_program, title, workload, asked)
    if "bert" in asked.workload:
        title = "bert watched"
        yield title, functools.partial(watched, title, asked)
    yield "what the device reaches", functools.partial(calibrate, asked)
    yield from compared_settings(asked)
    yield from measured(cases.padded(asked))
    yield from measured(cases.of_precision("tf32", asked))
    yield from waits(asked)
    if asked.certify:
        for workload in first_workloads(asked):
            title = f"certificates of {workload}"
            yield title, functools.partial(proofs.certificates, title, workload, asked)
    for workload in first_workloads(asked):
        title = f"spot check of {workload}"
        for device in dict.fromkeys((asked.device, "cpu")):
            check = functools.partial(proofs.spot_check, title, workload, device, asked)
            yield f"{title} on {device}", check
    yield from measured(cases.too_large(asked), must="oom")
    yield from measured(cases.of_precision("fp32", asked))


def others(asked):
    """All other workloads and scenarios."""
    for title, values in cases.others(asked):
        yield title, functools.partial(measure, title, values, asked)


JOBS = {"first": first, "others": others}


# What they are made of


def card_facts(asked):
    problems = state.keep_files(asked.out)
    for name, problem in problems.items():
        yield Entry(name, f"not kept: {problem}" if problem else f"kept as {name}")


def measure(title, values, asked, must=""):
    """The record of a case, or why there is none. must: how it has to end, if not well."""
    reason = lacks(values["framework"])
    if reason:
        return [Entry(title, reason)]
    try:
        document = by_hand.document(values)
    except by_hand.Mistake as mistake:
        return [Entry(title, f"unsupported: {mistake}")]
    folder = document["settings"]["data_dir"]
    if folder and not (ROOT / folder / "manifest.json").exists():
        return [Entry(title, f"no {folder}: copy it from a machine that has made it")]
    path = asked.out / "runs" / case_of(document["identity"]).folder / "rep1.json"
    record = read(path)
    if not is_good(title, record) or record.get("settings") != document["settings"]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        command = ["-m", "dlperf.measure", "--case", json.dumps(document), "--out", path]
        status, last = run(command, values["timeout_seconds"] + 60, asked)
        record = read(path)
        if status or not record:
            return [Entry(title, f"no record: {last}")]
    if record["status"] != "ok":
        return [Entry(title, f"{record['status']}: {record['reason']}")]
    if must:
        return [Entry(title, f"suspect: it is ok, and must be {must}")]
    return [Entry(title, record=record)]


def is_good(title, record):
    """Whether a record is there, is ok, and can be true."""
    return record.get("status") == "ok" and Entry(title, record=record).row({})[1] == "ok"


def profiles(asked):
    """A profiled step of each way, after those of the case without a profile."""
    for framework, compiler in ways(asked):
        for workload in first_workloads(asked):
            title = f"profile of {workload} {framework}-{compiler} amp"
            yield title, functools.partial(profile, title, workload, framework, compiler, asked)


def profile(title, workload, framework, compiler, asked):
    values = of(workload, framework, compiler, "amp", asked)
    out = asked.out / "profiles" / f"{workload}-{framework}-{compiler}"
    found, reason = steps(values, out, ["--profile", "--programs"], asked.limit + 60, asked)
    if reason:
        return [Entry(title, reason)]
    ran = found["profile"]
    longest = ran["top"][0] if ran["top"] else {"name": "none", "share": 0.0}
    backend = ran["attention"] or "no kernel with its name"
    attention = "" if workload == "resnet50" else f"; attention: {backend}"
    return [
        Entry(
            title,
            f"{ran['kernels']} kernels on the {ran['on']}, busy {ran['busy_us'] / 1000:.2f} of "
            f"{ran['span_us'] / 1000:.2f} ms{attention}; longest: {longest['share']:.1%} "
            f"{longest['name'][:60]}",
        )
    ]


def compared_program(title, workload, asked):
    """JAX's program of the profiled step beside the one that was compiled without a card."""
    out = asked.out / "profiles" / f"{workload}-jax-xla"
    if not (out / "program.txt.gz").exists():
        return [Entry(title, "none was kept: see the profile above")]
    card = programs.contents(out / "program.txt.gz")
    batch = of(workload, "jax", "xla", "amp", asked)["batch_size"]
    path = programs.made_without_card(workload, "amp", batch)
    without = programs.contents(path) if path else None
    (out / "program.json").write_text(json.dumps({"card": card, "without": without}, indent=1))
    if without is None:
        said = ", ".join(f"{name} {value:,}" for name, value in card.items())
        return [Entry(title, f"none without a card (tests/gpu/matrix.py makes it); {said}")]
    differ = list(programs.differences(card, without))
    return [Entry(title, "; ".join(differ) or "the same as the one made without a card")]


def watched(title, asked):
    """BERT for half a minute, while the card's power and clocks are read."""
    framework, compiler = ways(asked)[0]
    own = {} if asked.small else {"batch_size": cases.BATCHES["bert"][-1]}
    values = of("bert", framework, compiler, "amp", asked, own)
    title = f"{title}: {framework}-{compiler} amp batch {values['batch_size']}"
    reason = lacks(framework)
    if reason:
        return [Entry(title, reason)]
    out = asked.out / "watched"
    (out / "watch.json").unlink(missing_ok=True)
    seconds = 2 if asked.small else WATCHED_SECONDS
    command = [BENCHMARKS / "watch.py", "--case", json.dumps(by_hand.document(values))]
    command += ["--out", out, "--seconds", seconds]
    status, last = run(command, seconds + asked.limit + 60, asked)
    found = read(out / "watch.json")
    if status or not found:
        return [Entry(title, f"not watched: {last}")]
    said = [f"{found['samples_per_second']:.1f} samples/s over {found['window_seconds']:.0f} s"]
    for key, unit in (("watts", "W"), ("sm_mhz", "MHz")):
        if found[key]:
            said.append(f"{found[key]['mean']:.0f} {unit} (p1 {found[key]['p1']:.0f})")
    said += [f"{name} {share:.0%}" for name, share in found["reasons"].items()]
    if found["problem"]:
        said.append(found["problem"])
    return [Entry(title, ", ".join(said))]


def calibrate(asked):
    """What the device reaches, by PyTorch: MFU of the rows above and below is beside it."""
    title, path = "what the device reaches", asked.out / "node.json"
    if lacks("pytorch"):
        return [Entry(title, lacks("pytorch"))]
    last = f"kept: {path.name}"
    if read(path).get("status") != "ok":
        command = ["-m", "dlperf.measure.probe", "--device", asked.device, "--out", path]
        last = run(command, 300, asked)[1]
    reached = [f"{name} {value:.4g} TFLOP/s" for name, value in peaks(asked).items()]
    for rank in read(path).get("ranks", ()):
        for each in rank.get("sustained", ()):
            rate, spent = each["flops"] / each["seconds"] / 1e12, each["seconds"]
            reached.append(f"{each['precision']} over {spent:.0f} s {rate:.4g} TFLOP/s")
    return [Entry(title, ", ".join(reached) or f"not known: {last}")]


def peaks(asked):
    """{precision: TFLOP/s of products} as measured so far: of the best turns."""
    return {
        each["precision"]: each["flops"] / min(each["seconds"]) / 1e12
        for rank in read(asked.out / "node.json").get("ranks", ())
        for each in rank["measured"]
        if each["what"] == "gemm"
    }


def compared_settings(asked):
    """With and without CUDA graphs; cuDNN's search over ten algorithms and over all."""
    if "pytorch" not in asked.framework:
        return
    for workload in first_workloads(asked):
        title = f"CUDA graphs of {workload} pytorch-inductor amp"
        # of dropout, replays draw other random numbers, so changes are of other steps
        kept = ["--changes", "3"] if workload == "resnet50" else []
        pair = {"with": kept, "without": ["--no-graphs", *kept]}
        yield title, functools.partial(pair_of_steps, title, workload, pair, asked)
    if "resnet50" in asked.workload:
        title = "benchmark_limit of resnet50 pytorch-inductor amp"
        pair = {"10": ["--benchmark-limit", "10"], "0 (all)": ["--benchmark-limit", "0"]}
        yield title, functools.partial(pair_of_steps, title, "resnet50", pair, asked)


def pair_of_steps(title, workload, pair, asked):
    """Two settings of the same steps, one after the other."""
    values = of(workload, "pytorch", "inductor", "amp", asked)
    speeds, said, folders = [], [], []
    for name, options in pair.items():
        out = asked.out / "settings" / f"{title.split()[0]}-{workload}-{name.split()[0]}"
        timed = [] if asked.small else ["--seconds", COMPARED_SECONDS]
        folders.append(out)
        found, reason = steps(values, out, [*options, *timed], asked.limit + 60, asked)
        if reason:
            return [Entry(title, f"{name}: {reason}")]
        speeds.append(found["samples_per_second"])
        graphs = found["parity"].get("cuda_graphs", "")
        said.append(
            f"{name}: {speeds[-1]:.1f} samples/s, built and warm in "
            f"{found['build_and_warmup_seconds']:.0f} s" + (f", graphs {graphs}" if graphs else "")
        )
    said.append(f"ratio {speeds[0] / speeds[1]:.3f}")
    if all((folder / "changes.npz").exists() for folder in folders):
        said.append(table.apart(*(folder / "changes.npz" for folder in folders)))
    return [Entry(title, "; ".join(said))]


def waits(asked):
    """Each kind of step that PyTorch looks for waits in (waits.py)."""
    if "pytorch" not in asked.framework:
        return
    for workload in first_workloads(asked):
        for compiler in (compiler for framework, compiler in ways(asked) if framework == "pytorch"):
            for precision in ("amp", "amp_fp16"):  # what fp32 does is in these too
                title = f"waits of {workload} pytorch-{compiler} {precision}"
                yield title, functools.partial(wait, title, workload, compiler, precision, asked)


def wait(title, workload, compiler, precision, asked):
    if lacks("pytorch"):
        return [Entry(title, lacks("pytorch"))]
    values = of(workload, "pytorch", compiler, precision, asked, cases.WAITS[workload])
    if not asked.small:
        values.update(batch_size=8, warmup_steps=8, measured_steps=8)
    case = json.dumps(by_hand.document(values))
    status, last = run([BENCHMARKS / "waits.py", "--case", case], asked.limit + 60, asked)
    none = "none" if asked.device == "cuda" else "nothing to look for on a CPU"
    return [Entry(title, last if status else none)]


def write(asked, entries):
    """Write the table with what is known by now of the card's peaks; return its rows."""
    gpus = host.gpu_facts(host.visible_gpus()[:1]) if asked.device == "cuda" else []
    name = host.facts()["cpu"]
    if asked.device == "cuda":
        name = (gpus and gpus[0].get("name")) or "a card without a name"
    known = peaks(asked)
    rows = [entry.row(known) for entry in entries]
    (asked.out / "results.md").write_text(table.markdown(f"One device, {name}.", rows))
    return rows


if __name__ == "__main__":
    main()
