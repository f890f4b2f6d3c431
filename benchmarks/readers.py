"""Is each framework's reader of images at least as fast as its documented example?

    python benchmarks/readers.py [--framework NAME ...] [--rounds 3] [--seconds 8]

On one core, with nothing that takes the batches: the framework's own reader (loaders/readers), the
loader that all frameworks share (loaders/images.py), and the pipelines that the framework's project
or a library for it shows (public/readers/<framework>.py, <framework>_<library>.py). Each in a
process of its own, one after another, round by round, so that drift falls on all. Printed, and
written to results/benchmarks/readers.tsv: images a second, the median of the rounds, by wall clock
and by CPU time, which a busy machine disturbs less.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile

import common
from public_implementations import PUBLIC, constants, install

from dlperf.loaders.formats import OF_FRAMEWORK

KEYS = ("framework", "example", "image_size", "batch_size")
OURS = ("own", "shared")
SHARDS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--framework", nargs="+", choices=sorted(OF_FRAMEWORK), default=list(OF_FRAMEWORK)
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each (default: 8)")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=32)
    asked = parser.parse_args()
    kinds = {name: [*OURS, *examples(name)] for name in asked.framework}
    speeds = {(name, kind): [] for name in asked.framework for kind in kinds[name]}
    for number in range(asked.rounds):
        for name in asked.framework:
            for kind in kinds[name][:: -1 if number % 2 else 1]:
                speeds[name, kind].append(measured(name, kind, asked))
    rows = [row(name, each, speeds, asked) for name in asked.framework for each in examples(name)]
    for each in rows:
        print(
            "{framework} ({format}): own {own} images/s, shared {shared}, example "
            "{example_speed}; own / example {ratio}, by CPU time {cpu_ratio}: {source}".format(
                **each
            )
        )
    print("->", common.write("readers", rows, KEYS))


def examples(name):
    """The framework's documented pipelines, as names of files in public/readers."""
    folder = PUBLIC / "readers"
    return [name, *sorted(path.stem for path in folder.glob(f"{name}_*.py"))]


def row(name, example, speeds, asked):
    def median(kind, key):
        return statistics.median(each[key] for each in speeds[name, kind])

    kinds = {"own": "own", "shared": "shared", "example_speed": example}
    wall = {column: median(kind, "images_per_second") for column, kind in kinds.items()}
    cpu = {column: median(kind, "images_per_cpu_second") for column, kind in kinds.items()}
    return {
        "framework": name,
        "example": example,
        "format": OF_FRAMEWORK[name],
        "source": constants(PUBLIC / "readers" / f"{example}.py")["SOURCE"],
        "image_size": asked.image_size,
        "batch_size": asked.batch_size,
        "rounds": asked.rounds,
        **{column: round(speed, 1) for column, speed in wall.items()},
        **{f"{column}_by_cpu_time": round(speed, 1) for column, speed in cpu.items()},
        "ratio": round(wall["own"] / wall["example_speed"], 3),
        "cpu_ratio": round(cpu["own"] / cpu["example_speed"], 3),
    }


def measured(name, kind, asked):
    interpreter, environ = common.environment(name)
    example = name if kind in OURS else kind
    public = PUBLIC / "readers" / f"{example}.py"
    module = constants(public)
    packages = install(f"readers-{example}", interpreter, module)
    numbers = [str(asked.batch_size), str(asked.image_size), str(asked.seconds)]
    if kind not in OURS:
        folder = data(module["FORMAT"])
        script = common.ROOT / "benchmarks" / "reading.py"
        command = [interpreter, str(script), str(public), str(folder), *numbers]
    else:
        folder = (
            common.ROOT / "results/data/sample" if kind == "shared" else data(OF_FRAMEWORK[name])
        )
        command = [interpreter, str(common.ROOT / "benchmarks/read.py"), "--framework", name]
        command += ["--data", str(folder)] + (["--shared"] if kind == "shared" else [])
        options = zip(("--batch-size", "--image-size", "--seconds"), numbers, strict=True)
        command += [word for option in options for word in option]
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"readers-{name}-{kind}.log", "w") as log,
    ):
        run = common.one_core(name, interpreter, scratch)
        paths = [common.ROOT / "scripts", packages]
        process = common.start(command, run, environ, paths, log, stdout=subprocess.PIPE)
        output, _ = process.communicate(timeout=60 + 10 * asked.seconds)
    if process.returncode:
        sys.exit(f"error: {name}, {kind}: ended with {process.returncode}; see {log.name}")
    return json.loads(output.splitlines()[-1])


def data(format):
    """The folder with the sample set in a format, made where it is missing."""
    out = common.RESULTS / "data" / format
    if not (out / "manifest.json").exists():
        interpreter, environ = sys.executable, {}
        if format == "mindrecord":
            interpreter, environ = common.environment("mindspore")
        source = common.ROOT / "results/data/sample"
        command = [interpreter, "-m", "dlperf.prepare.images", "--dataset", "sample"]
        command += ["--source", source, "--format", format, "--out", out, "--shards", SHARDS]
        environ = {**common.os.environ, **environ, "PYTHONPATH": str(common.ROOT / "scripts")}
        subprocess.run([str(word) for word in command], env=environ, check=True)
    return out


if __name__ == "__main__":
    main()
