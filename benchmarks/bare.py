"""What benchmarks share that compare a loop of this project's with a bare one, in one process.

In: a program that runs pairs of windows under a framework's interpreter and writes, for each, the
seconds of both. Out: a row a framework for the benchmark's TSV, and whether all ratios are near 1.
"""

import argparse
import json
import subprocess
import sys
import tempfile

import common


def parser(doc, frameworks, batch_size):
    """The options that these benchmarks have in common."""
    found = argparse.ArgumentParser(description=doc.splitlines()[0])
    found.add_argument("--framework", nargs="+", default=frameworks)
    found.add_argument("--pairs", type=int, default=15)
    found.add_argument("--batch-size", type=int, default=batch_size)
    found.add_argument("--image-size", type=int, default=64)
    return found


def compare(
    name,
    framework,
    asked,
    program,
    arguments,
    environ=(),
    wait=subprocess.Popen.wait,
    complete=lambda pairs: pairs,
    **changes,
):
    """(what was compared, the ratios, median seconds of a bare window) of one framework.

    `program`, of this folder, gets the Run (with `changes`) and `arguments`; `wait` waits for its
    process; `complete` adds to its pairs what was timed outside of it.
    """
    interpreter, variables = common.environment(framework)
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"{name}-{framework}.log", "w") as log,
    ):
        run = common.one_core(
            framework,
            interpreter,
            scratch,
            batch_size=asked.batch_size,
            dimensions={"image_size": asked.image_size},
            **changes,
        )
        spec = f"{scratch}/run.json"
        run.save(spec)
        command = [interpreter, str(common.ROOT / "benchmarks" / program), spec, *arguments]
        variables = {**variables, **dict(environ)}
        paths = [common.ROOT / "scripts"]
        process = common.start(
            command, run, variables, paths, log, stdin=subprocess.DEVNULL, stdout=log
        )
        if wait(process):
            sys.exit(f"error: {framework} ended with {process.returncode}; see {log.name}")
        with open(run.result) as stream:
            pairs = complete(json.load(stream))
    row = {
        "framework": framework,
        "compiler": run.compiler,
        "image_size": asked.image_size,
        "batch_size": asked.batch_size,
    }
    (ours,) = pairs[0].keys() - {"bare"}  # how the pair names its other window
    ratios = common.summary([pair[ours] / pair["bare"] for pair in pairs])
    return row, ratios, sorted(pair["bare"] for pair in pairs)[len(pairs) // 2]


def end(name, rows, keys, text, allowed):
    """Print and write the rows; exit with an error where a ratio is not within 1 +- allowed."""
    for row in rows:
        print(text.format(**row))
    print("->", common.write(name, rows, keys))
    beyond = [row["framework"] for row in rows if abs(row["ratio_median"] - 1) > allowed]
    if beyond:
        sys.exit(f"error: beyond 1 +- {allowed}: {', '.join(beyond)}; was the machine quiet?")
