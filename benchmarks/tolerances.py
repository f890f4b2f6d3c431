"""How much of each tolerance do honest implementations use, whatever the seeds are?

    .venv/bin/python benchmarks/tolerances.py --workload wide_deep --seeds 10

Makes the certificates of a round, of those that come with the code unless `--round` names another
one, once for each pair of seeds, of neutral weights and of batches, each pair in a copy of the
package of its own. Certificates that are there already are kept, so the same command resumes; a
pair's reference is removed behind them; other code begins anew. Prints, for each tier, the largest
distance of any framework and pair of seeds beside its tolerance, and writes every distance to
results/benchmarks/tolerances-<workload>.tsv.

A tolerance should be at least MARGIN times the worst of ten pairs, and at most a third of what the
smallest wrong setting does (docs/certificates-measured.md has both).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import RESULTS, ROOT, write

from dlperf import frameworks, plan, workloads
from dlperf.measure import code

RELEASED = ROOT / "config/rounds/released.yaml"
MARGIN = 3
#: Beyond this share of a tolerance, three pairs of seeds are too few to trust it.
WATCHED = 1 / 3


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=workloads.NAMES, required=True)
    parser.add_argument("--framework", nargs="+", choices=frameworks.NAMES)
    parser.add_argument(
        "--round",
        type=Path,
        default=RELEASED,
        help="a config (default: config/rounds/released.yaml)",
    )
    parser.add_argument("--layout", nargs="+", help="such as 1 dp2 (default: all of the round)")
    parser.add_argument("--variant", nargs="+", help="such as adamdense; '' is the standard one")
    parser.add_argument(
        "--seeds",
        nargs="+",
        default=["3"],
        help="a number of pairs, or pairs such as 2/9: of weights / of batches (default: 3)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="certificates at a time")
    parser.add_argument("--no-long-runs", action="store_true", help="leave `long-run` out")
    asked = parser.parse_args()
    cases = certified_cases(asked)
    if not cases:
        parser.error(
            f"{asked.round}: no certificate of {asked.workload} is of that framework, layout and "
            "variant"
        )
    # a pair at a time: whatever was finished when it stops counts for all frameworks
    for pair in seed_pairs(asked.seeds, parser):
        Certified(asked.workload, *pair, not asked.no_long_runs).make(cases, asked.jobs)
    rows = [row for pair in seed_pairs(asked.seeds, parser) for row in read(asked, pair, cases)]
    write(f"tolerances-{asked.workload}", rows)
    show(rows)


def seed_pairs(words, parser):
    """'3' -> three pairs; '2/9' -> that pair. The released pair is not among the first form's."""
    if len(words) == 1 and words[0].isdigit():
        return [(1 + number, 100 + number) for number in range(1, int(words[0]) + 1)]
    if not all(re.fullmatch(r"\d+/\d+", word) for word in words):
        parser.error(f"--seeds {' '.join(words)}: a number, or pairs such as 2/9 3/21")
    return [tuple(map(int, word.split("/"))) for word in words]


def certified_cases(asked):
    """Cases of the round: one for each certificate."""
    config = plan.load(asked.round)
    cases = {
        case.certificate("cpu"): case
        for case in plan.expand(config)
        if not case.unsupported
        and case.workload == asked.workload
        and case.framework in (asked.framework or frameworks.NAMES)
        and case.proved in (asked.layout or [case.proved])
        and case.variant in (asked.variant if asked.variant is not None else [case.variant])
    }
    return list(cases.values())


class Certified:
    """The certificates of a workload under one pair of seeds, in a folder of their own."""

    def __init__(self, workload, weights_seed, batches_seed, long_runs=True):
        self.workload, self.seeds = workload, (weights_seed, batches_seed)
        self.long_runs = long_runs
        own = {path for each in frameworks.NAMES for path in implementation(workload, each)}
        sha256 = code.sha256(sorted({*code.of_reference(workload), *own}))
        name = f"{sha256[:8]}-{weights_seed}-{batches_seed}"
        self.folder = RESULTS / "tolerances" / workload / name
        self.scripts = self.folder / "scripts"
        self.data = ROOT / "results/data" / workloads.data(workload)["sample"].folder

    def path(self, case):
        return self.folder / case.certificate("cpu").partition("/")[2]

    def make(self, cases, jobs):
        missing = [case for case in cases if not self.path(case).exists()]
        if not missing:
            return
        self._copy()
        for variant in dict.fromkeys(case.variant for case in missing):
            self._make_reference(variant)
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(self._certify, missing))
        for variant in dict.fromkeys(case.variant for case in missing):
            shutil.rmtree(self.folder / f"reference-{variant}")  # 5 GB of BERT's

    def _copy(self):
        """The package with these seeds."""
        if self.scripts.exists():
            return
        unfinished = self.folder / "scripts.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "scripts", unfinished, ignore=ignored)
        package, (weights_seed, batches_seed) = unfinished / "dlperf", self.seeds
        set_seed(package / "certify/reference.py", weights_seed)
        proof = package / f"workloads/{self.workload}/proof.py"
        append(proof, f"PROOF = type(PROOF)(**dict(vars(PROOF), seed={batches_seed}))")
        unfinished.rename(self.scripts)

    def _make_reference(self, variant):
        """The reference, and its own long run where certificates of the variant have one."""
        folder = self.folder / f"reference-{variant}"
        if not (folder / "manifest.json").exists():
            self._run("dlperf.certify.reference", *self._of(variant), f"--out={folder}")
        long_run = folder / "long.json"
        wanted = self.long_runs and variant in workloads.proof(self.workload).long_runs
        if wanted and not long_run.exists():
            self._run("dlperf.certify.long_run", *self._of(variant), f"--out={long_run}")

    def _of(self, variant):
        return (
            f"--workload={self.workload}",
            f"--variant={variant}",
            f"--environment={environment_of('pytorch')}",
            f"--data-dir={self.data}",
        )

    def _certify(self, case):
        out = self.path(case)
        out.parent.mkdir(parents=True, exist_ok=True)
        text = self._run(
            "dlperf.certify",
            f"--workload={self.workload}",
            f"--framework={case.framework}",
            f"--precision={case.precision}",
            f"--compiler={case.compiler}",
            f"--layout={case.proved}",
            f"--environment={environment_of(case.framework)}",
            f"--reference={self.folder}/reference-{case.variant}",
            f"--data-dir={self.data}",
            "--cores=2",
            *([] if self.long_runs else ["--no-long-run"]),
            f"--out={out}",
        )
        said = text.splitlines()[0].partition(" -> ")[0]
        tiers = json.loads(out.read_text(encoding="utf-8"))["tiers"]
        if any(tier.get("reason", "").startswith("oom:") for tier in tiers):
            out.unlink()  # says nothing about the implementation, so the next call makes it again
            sys.exit(f"error: {said}: the machine has too little memory beside what else runs")
        print("{}/{}".format(*self.seeds), said, flush=True)

    def _run(self, module, *arguments):
        command = [sys.executable, "-m", module, *arguments]
        environ = {**os.environ, "PYTHONPATH": str(self.scripts)}
        done = subprocess.run(command, env=environ, cwd=ROOT, text=True, capture_output=True)
        if done.returncode:
            # a reference of BERT's size takes 8 GB: without memory it is killed without a word
            why = done.stderr[-3000:] or f"it ended with {done.returncode}, and said nothing"
            sys.exit(f"error: {' '.join(command)}\n{why}")
        return done.stdout


def implementation(workload, framework):
    """The files of an implementation; none where there is none."""
    there = workloads.implements(workload, framework)
    return code.of_implementation(workload, framework) if there else ()


def set_seed(path, seed):
    """Give a module's constant SEED this value."""
    text, count = re.subn(r"(?m)^SEED = \d+", f"SEED = {seed}", path.read_text(encoding="utf-8"))
    assert count == 1, f"{path}: {count} lines SEED = …"
    path.write_text(text, encoding="utf-8")


def append(module, line):
    with module.open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line}\n")


def environment_of(framework):
    return ROOT / f"results/environments/{framework}.cpu/env.json"


def read(asked, pair, cases):
    """A row a tier of each certificate."""
    certified = Certified(asked.workload, *pair)
    for case in cases:
        document = json.loads(certified.path(case).read_text(encoding="utf-8"))
        for tier in document["tiers"]:
            if tier["passed"] is None:
                continue
            measured, tolerance = tier.get("measured"), tier.get("tolerance")
            yield {
                "tier": tier["name"],
                "variant": case.variant,
                "layout": case.proved,
                "framework": case.framework,
                "seeds": f"{pair[0]}/{pair[1]}",
                "measured": measured,
                "tolerance": tolerance,
                "passed": tier["passed"],
                "where": tier.get("worst", {}).get("tensor", "") or tier.get("reason", ""),
            }


def share(row):
    """The share of its tolerance that a tier used; a tier that could not run used all of it."""
    if row["measured"] is None:
        return float("inf")
    return row["measured"] / row["tolerance"] if row["tolerance"] else float(not row["passed"])


def show(rows):
    """The worst share of each tier's tolerance, and what the tolerance would be by MARGIN."""
    print(f"\n{'tier':<30}{'worst':>9}{'tolerance':>11}{'share':>7}{'x margin':>10}  where")
    for tier in sorted({row["tier"] for row in rows}):
        worst = max((row for row in rows if row["tier"] == tier), key=share)
        names = ("framework", "variant", "layout", "seeds", "where")
        where = " ".join(worst[name] for name in names if worst[name])
        if worst["measured"] is None:
            print(f"{tier:<30}could not run: {where}")
            continue
        numbers = f"{worst['measured']:>9.2g}{worst['tolerance']:>11.2g}{share(worst):>7.2f}"
        mark = " *" if share(worst) > WATCHED else ""
        print(f"{tier:<30}{numbers}{MARGIN * worst['measured']:>10.2g}  {where}{mark}")
    print(f"* more than {WATCHED:.0%} of its tolerance: try ten pairs of seeds")


if __name__ == "__main__":
    main()
