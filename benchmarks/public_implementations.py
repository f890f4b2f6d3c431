"""Is each implementation at least as fast as the best public one of its framework that installs?

    python benchmarks/public_implementations.py [--scenario infer] [--workload NAME]
        [--framework NAME ...]

Both are built in one process under the framework's interpreter, pinned to one core, and run blocks
of steps on the same batch in turns, the order swapped in each pair. Where a public module says
`SEPARATE = True`, each has a process of its own, and the two are commanded in turns. Printed, and
written to results/benchmarks/public.tsv: public time / our time of each pair, so that 1.1 means
that ours is 10 % faster; and the same of CPU time, which a busy machine disturbs less. Of an
inference a step is an answer: from a batch's arrays on the host to outputs on the host.
"""

import argparse
import ast
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common

PUBLIC = common.ROOT / "benchmarks" / "public"
# What tells rows of public.tsv apart; a row is replaced by a new one with the same.
KEYS = (
    *("workload", "framework", "source", "scenario", "precision", "compiler", "dimensions"),
    "batch_size",
)
#: What is compared by default: small enough for one core.
DIMENSIONS = {
    "resnet50": {"image_size": 64},
    "bert": {"sequence_length": 64, "clip": 1, "padded_vocabulary": 0},
    "wide_deep": {"vocabulary": 260_000, "layers": 2},
    "electra": {"sequence_length": 32},
    "gpt": {"width": 512, "layers": 4, "heads": 8, "sequence_length": 128},
    "insightface": {"backbone": "y1", "num_classes": 10_000},
}
BATCH_SIZES = {
    "train": {
        "resnet50": [8],
        "bert": [2],
        "wide_deep": [512],
        "electra": [2],
        "gpt": [4],
        "insightface": [16],
    },
    "infer": {"resnet50": [1, 8], "bert": [1, 8]},
}
#: What a public module has for a scenario.
BUILDERS = {"train": "training", "infer": "inference"}


def main():
    there = sorted({framework_of(path) for path in PUBLIC.glob("*/*.py")})
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=sorted(DIMENSIONS), default="resnet50")
    parser.add_argument("--scenario", choices=sorted(BUILDERS), default="train")
    parser.add_argument("--framework", nargs="+", choices=there)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="steps of a block (default: 5)")
    parser.add_argument("--dimension", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--batch-size", type=int, nargs="+")
    parser.add_argument("--precision", choices=("fp32", "amp"), default="fp32")
    parser.add_argument("--compiler", help="default: the framework's default on the CPU")
    asked = parser.parse_args()
    asked.dimensions = dict(DIMENSIONS[asked.workload])
    for each in asked.dimension:
        name, _, value = each.partition("=")
        asked.dimensions[name] = int(value) if value.isdigit() else value
    sizes = asked.batch_size or BATCH_SIZES[asked.scenario].get(asked.workload)
    public = [
        path
        for path in sorted((PUBLIC / asked.workload).glob("*.py"))
        if f"\ndef {BUILDERS[asked.scenario]}(" in path.read_text()
    ]
    with_public = list(dict.fromkeys(map(framework_of, public)))
    if not sizes or not with_public:
        parser.error(f"nothing is compared of {asked.workload} in the scenario {asked.scenario}")
    if without := sorted(set(asked.framework or ()) - set(with_public)):
        parser.error(
            f"nothing public of {asked.workload} in the scenario {asked.scenario} in "
            f"{', '.join(without)}; there is of {', '.join(with_public)}"
        )
    rows, failed = [], []
    wanted = [path for path in public if framework_of(path) in (asked.framework or with_public)]
    for path, batch_size in itertools.product(wanted, sizes):
        try:
            row = compare(path, batch_size, asked)
        except (subprocess.CalledProcessError, RuntimeError) as error:
            print(f"{path.stem}: {error}", file=sys.stderr)
            failed.append(path.stem)
            continue
        rows.append(row)
        print(
            "{framework} ({compiler}), batch {batch_size}: public / ours {ratio_median} "
            "[{ratio_low}, {ratio_high}], CPU time {cpu_ratio_median} "
            "[{cpu_ratio_low}, {cpu_ratio_high}]; ours {ours_seconds} s, "
            "{source} {public_seconds} s a step".format(**row),
            flush=True,
        )
        written = common.write("public", rows, KEYS)
    if rows:
        print("->", written)
    sys.exit(f"error: failed: {', '.join(failed)}" if failed else 0)


def constants(path):
    """The constants of a public module, read without importing its framework."""
    found = {
        "SEPARATE": False,
        "WITHOUT_OPTIMIZER": False,
        "BUILD_CONSTRAINTS": [],
        "BUILD_REQUIREMENTS": {},
    }
    for node in ast.parse(path.read_text()).body:
        name = getattr(node.targets[0], "id", "") if isinstance(node, ast.Assign) else ""
        if name.isupper():
            try:
                found[name] = ast.literal_eval(node.value)
            except ValueError:
                pass  # not a literal: nothing that is asked for here
    if isinstance(found["REQUIREMENTS"], str):  # a list that several pages share
        lines = (PUBLIC / "requirements" / found["REQUIREMENTS"]).read_text().splitlines()
        found["REQUIREMENTS"] = [line for line in lines if not line.startswith("#")]
    return found


def install(name, interpreter, module):
    """The folder with the public implementation's packages, made where it is missing or stale."""
    target = common.RESULTS / "packages" / name
    mark = target / ".requirements.json"
    needed = module["BUILD_REQUIREMENTS"]
    wanted = json.dumps([module["REQUIREMENTS"], module["BUILD_CONSTRAINTS"], *needed.items()])
    if module["REQUIREMENTS"] and not (mark.exists() and mark.read_text() == wanted):
        target.mkdir(parents=True, exist_ok=True)
        uv = Path(sys.executable).with_name("uv")
        command = [uv if uv.exists() else "uv", "pip", "install", "--quiet", "--no-deps"]
        command += ["--python", interpreter, "--target", target, *module["REQUIREMENTS"]]
        if module["BUILD_CONSTRAINTS"]:
            listed = target / ".build-constraints.txt"
            listed.write_text("\n".join(module["BUILD_CONSTRAINTS"]) + "\n")
            command += ["--build-constraints", listed]
        if needed:
            configured = target / ".uv.toml"
            lines = [f"{name} = {json.dumps(packages)}" for name, packages in needed.items()]
            configured.write_text("\n".join(["[extra-build-dependencies]", *lines]) + "\n")
            command += ["--config-file", configured]
        subprocess.run(command, check=True)
        mark.write_text(wanted)
    return target


def framework_of(path):
    """pytorch of pytorch.py, and of pytorch_nanogpt.py, another public form in it."""
    return path.stem.partition("_")[0]


def compare(public, batch_size, asked):
    framework, module = framework_of(public), constants(public)
    interpreter, environ = common.environment(framework)
    packages = install(f"{asked.workload}-{public.stem}", interpreter, module)
    values = {
        "workload": asked.workload,
        "scenario": asked.scenario,
        "batch_size": batch_size,
        "dimensions": asked.dimensions,
        "precision": asked.precision,
    }
    if asked.compiler:
        values["compiler"] = asked.compiler
    ours = common.ROOT / "scripts" / "dlperf" / "workloads" / asked.workload / f"{framework}.py"
    if module["WITHOUT_OPTIMIZER"]:
        ours = common.ROOT / "benchmarks" / "without_optimizer" / f"{framework}.py"
    modules = {"ours": ours, "public": public}
    common.RESULTS.mkdir(parents=True, exist_ok=True)
    blocks = {name: [] for name in modules}
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(common.RESULTS / f"public-{asked.workload}-{public.stem}.log", "w") as log,
    ):
        run = common.one_core(framework, interpreter, scratch, **values)
        contestants = common.Contestants(
            run, environ, modules, module["SEPARATE"], [packages], scratch, log
        )
        try:
            sizes = {about.get("outputs") for about in contestants.about.values()}
            if len(sizes) > 1:
                raise RuntimeError(f"the outputs of the two are of different sizes: {sizes}")
            for pair in range(asked.pairs):
                for name in sorted(modules, reverse=pair % 2):
                    blocks[name].append(contestants.block(name, asked.steps))
        finally:
            contestants.close()

    def ratios(key):
        return [
            theirs[key] / our[key]
            for theirs, our in zip(blocks["public"], blocks["ours"], strict=True)
        ]

    def seconds(name):
        return round(statistics.median(each["seconds"] for each in blocks[name]) / asked.steps, 4)

    return {
        "workload": asked.workload,
        "framework": framework,
        "scenario": asked.scenario,
        "source": module["SOURCE"],
        "precision": run.precision,
        "compiler": run.compiler,
        "dimensions": " ".join(f"{name}={value}" for name, value in asked.dimensions.items()),
        "batch_size": batch_size,
        "steps": asked.steps,
        **common.summary(ratios("seconds")),
        **common.cpu_summary(ratios("cpu_seconds")),
        "ours_seconds": seconds("ours"),
        "public_seconds": seconds("public"),
    }


if __name__ == "__main__":
    main()
