"""How long does a round's report take, how large is it, and how soon can it be used?

    python benchmarks/report.py [--cells 2000] [--repetitions 7]

For the laptop round and for one of as many cells, with generated records in a temporary folder:
seconds of `dlperf.analysis report`, bytes of report.html, milliseconds in Chromium, opened at the
explorer, until its first plot stands, and seconds of `snakemake --report`. The figures of the large
round are copies of one of its own, since drawing them is not what is measured here; Snakemake's
metadata are made with --touch. Printed, and written to results/benchmarks/report.tsv; exits 1
beyond a limit.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

import common
import workflow
import yaml
from playwright.sync_api import sync_playwright

from dlperf import plan
from dlperf.analysis.round import names

PRECISIONS = ["fp32", "amp"]
TOPOLOGIES = ["1n1d", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d", "8n8d"]
#: What is asked of the laptop's page, and of the large round.
LIMITS = {"bytes": 5_000_000, "plot_milliseconds": 2000, "snakemake_report_seconds": 60}


def large(cells, repetitions):
    """A config of at least `cells` cells that can run, of one workload."""
    generated = workflow.generated_round
    batches = 1
    while True:
        sizes = {precision: [2**power for power in range(batches)] for precision in PRECISIONS}
        made = generated.config(
            round="large",
            repetitions=repetitions,
            topologies=TOPOLOGIES,
            resnet50_precisions=PRECISIONS,
            resnet50_batch_sizes=sizes,
        )
        if len(plan.expand(plan.load(made))) >= cells:
            return made
        batches += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--repetitions", type=int, default=7)
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = workflow.checkout(Path(scratch) / "copy")
        for mapping in (workflow.LAPTOP, large(asked.cells, asked.repetitions)):
            rows.append(measure(copy, mapping))
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    print("->", common.write("report", rows))
    laptop, big = rows
    limited = {key: big if key.startswith("snakemake") else laptop for key in LIMITS}
    beyond = [key for key, row in limited.items() if row[key] > LIMITS[key]]
    if beyond:
        sys.exit(f"error: beyond the limit: {', '.join(beyond)}; was the machine quiet?")


def measure(copy, mapping):
    (copy / f"{mapping['round']}.yaml").write_text(yaml.safe_dump(mapping))
    folder = copy / "results" / mapping["round"]
    workflow.generated_round.write_round(copy, mapping)
    analysis = [sys.executable, "-m", "dlperf.analysis"]
    relative = folder.relative_to(copy)
    steps = workflow.analysis_steps
    for step in (steps.merging, steps.limiting, steps.summarising, steps.bounding):
        workflow.run([*analysis, *step(folder)], copy)
    cells, measurements = relative / "cells.tsv", relative / "measurements.tsv.gz"
    cases = plan.expand(plan.load(mapping))
    drawn(copy, relative, cases, analysis)
    options = ["--config", relative / "config.yaml", "--round", relative, "--shared", "results"]
    start = time.perf_counter()
    workflow.run([*analysis, "report", *options, "--out", relative / "report.html"], copy)
    seconds = time.perf_counter() - start
    tables = ["--measurements", measurements, "--out", relative / "tables.md"]
    workflow.run([*analysis, "markdown", "--cells", cells, *tables], copy)
    configured = ["--configfile", f"{mapping['round']}.yaml"]
    workflow.snakemake(copy, "--touch", *configured, "--", "all")
    start = time.perf_counter()
    workflow.snakemake(copy, *configured, "--report", "audit.html")
    reported = time.perf_counter() - start
    page = folder / "report.html"
    return {
        "round": mapping["round"],
        "cells": len(cases),
        "repetitions": len(cases) * mapping["repetitions"],
        "report_seconds": round(seconds, 2),
        "bytes": page.stat().st_size,
        "plot_milliseconds": drawn_after(page),
        "snakemake_report_seconds": round(reported, 1),
        "snakemake_report_bytes": (copy / "audit.html").stat().st_size,
    }


def drawn(copy, folder, cases, analysis):
    """Tables and figures of the round: the first of each by its command, the rest copies of it."""
    cells = folder / "cells.tsv"
    wanted = [("table", names.table_ids(cases), ("tsv", "md", "html"))]
    for kind in ("throughput", "scaling"):
        figures = [name for name in names.figure_ids(cases) if name.endswith(kind)]
        wanted.append(("figure", figures, ("svg", "png")))
    for what, all_names, kinds in wanted:
        paths = {kind: folder / f"{what}s" / f"{all_names[0]}.{kind}" for kind in kinds}
        outputs = [each for kind, path in paths.items() for each in (f"--{kind}", path)]
        workflow.run([*analysis, what, "--cells", cells, f"--{what}", all_names[0], *outputs], copy)
        for kind, path in paths.items():
            content = (copy / path).read_bytes()
            for name in all_names[1:]:
                (copy / path).with_name(f"{name}.{kind}").write_bytes(content)


def drawn_after(page):
    """Milliseconds from the start of navigation until the explorer's first plot stands, where the
    page is opened there; median of 3."""
    path = next(filter(Path.exists, map(Path, ("/usr/bin/chromium", "/usr/bin/google-chrome"))))
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(3):
            tab = browser.new_page(reduced_motion="reduce")
            tab.goto(page.as_uri() + "#cells", timeout=120_000)
            plot = tab.wait_for_function("performance.getEntriesByName('plot')[0]?.startTime")
            found.append(int(plot.json_value()))
            tab.close()
        browser.close()
    return statistics.median(found)


if __name__ == "__main__":
    main()
