"""A made-up round, analysed step by step; what its report page holds."""

from html.parser import HTMLParser
from pathlib import Path

from analysis_steps import bounding, limiting, merging, summarising
from generated_round import config

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.round import metrics
from dlperf.analysis.schema.files import Row, read_table

SMALL = config(frameworks=["pytorch", "mxnet"])

NAME = "resnet50-train-fp32-b8"

VOID = {"meta", "link", "br", "img", "hr", "input"}


def analyse(results: Path) -> list[Row]:
    """The rows of cells.tsv, after merge, limits and cells; of each case its own metric's."""
    for step in (merging, limiting, summarising, bounding):
        assert main(step(results)) == 0
    return metrics.select(read_table(results / "cells.tsv"))


def merge(results: Path) -> int:
    return main(merging(results))


def cell(rows: list[Row], framework: str, devices: int) -> Row:
    (found,) = [
        row for row in rows if row["framework"] == framework and row["devices_per_node"] == devices
    ]
    return found


def mxnet_fails(case: plan.Case, repetition: int) -> tuple[str, str]:
    if case.framework == "mxnet" and (case.devices_per_node == 2 or repetition == 1):
        return "oom", "rank 0: no memory\nleft"
    return "ok", ""


def write_table(results: Path, name: str = NAME) -> dict[str, str]:
    paths = {kind: results / "tables" / f"{name}.{kind}" for kind in ("tsv", "md", "html")}
    options = [text for kind, path in paths.items() for text in (f"--{kind}", str(path))]
    assert main(["table", "--cells", str(results / "cells.tsv"), "--table", name, *options]) == 0
    return {kind: path.read_text() for kind, path in paths.items()}


def write_figure(results: Path, name: str) -> tuple[str, bytes]:
    svg, png = (results / "figures" / f"{name}.{kind}" for kind in ("svg", "png"))
    cells = str(results / "cells.tsv")
    options = ["--cells", cells, "--figure", name, "--svg", str(svg), "--png", str(png)]
    assert main(["figure", *options]) == 0
    return svg.read_text(), png.read_bytes()


class Page(HTMLParser):
    """Checks that elements are closed; collects ids, references, headings and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for key, value in attributes:
            if key == "id":
                self.ids.append(value)
            if key in ("href", "src", "xlink:href", "action", "data"):
                self.references.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)


def write_report(results: Path, figures: bool = False) -> Page:
    analyse(results)
    if figures:
        for kind in ("throughput", "scaling"):
            write_figure(results, f"{NAME}-{kind}")
    out, shared = results / "report.html", results.parent
    options = ["--config", str(results / "config.yaml"), "--round", str(results)]
    assert main(["report", *options, "--shared", str(shared), "--out", str(out)]) == 0
    return Page(out.read_text())
