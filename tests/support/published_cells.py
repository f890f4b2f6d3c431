"""The cells that config/published has figures of, beside the cases that rounds plan.

A cell is the work that a framework did on a card, whatever was measured of it and in however many
tables. It is held against the cases of the rounds that name the publication under `beside`: what
the nearest of them does otherwise, in words, and nothing where it does the same work.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dlperf import frameworks, workloads
from dlperf.analysis.publications import config as publications
from dlperf.analysis.publications import values
from dlperf.analysis.publications.published import data_as_read
from dlperf.contract.case import Case

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "config/published"
PUBLICATIONS = sorted(FOLDER.glob("*.yaml"))
#: The card that a round is for, where a publication has several machines; other rounds are for any.
CARDS = {
    "nvidia-electra": "A100-40GB",
    "nvidia-electra-final-loss": "A100-40GB",
    "nvidia-electra-final-loss-384": "A100-40GB",
    "nvidia-electra-final-loss-tf32": "A100-40GB",
    "nvidia-electra-final-loss-tf32-384": "A100-40GB",
    "nvidia-electra-final-loss-v100-384": "V100-32GB",
    "nvidia-electra-v100-16gb": "V100-16GB",
    "nvidia-electra-v100-32gb": "V100-32GB",
    "nvidia-electra-squad": "A100-40GB",
    "nvidia-electra-squad-t4": "T4-16GB",
    "nvidia-electra-squad-v100-16gb": "V100-16GB",
    "nvidia-electra-squad-v100-32gb": "V100-32GB",
    "nvidia-resnet50": "A100-80GB",
    "nvidia-resnet50-dgx-1": "V100-16GB",
    "nvidia-resnet50-dgx-1-mixup": "V100-16GB",
    "nvidia-resnet50-dgx-1-stability": "V100-16GB",
    "nvidia-resnet50-dgx-2": "V100-32GB",
    "nvidia-resnet50-photographs": "A100-80GB",
    "nvidia-resnet50-t4": "T4",
}


@dataclass(frozen=True)
class Published:
    """What is published, in the words of a case; what is not said is None or left out."""

    workload: str
    framework: str
    scenario: str
    precision: str
    topology: str
    card: str
    batch_size: int | None = None
    searched: str = ""  # what is the largest that fitted: 'batch_size', or a dimension
    xla: bool | None = None
    data: str = ""
    epochs: int | None = None
    layout: tuple[tuple[str, int], ...] = ()
    sizes: tuple[tuple[str, int | str], ...] = ()
    beyond: tuple[str, ...] = ()  # what no case says

    def differs(self, case: Case) -> list[str]:
        """What a case of the same workload, framework and scenario does otherwise."""
        found = list(self.beyond)
        if self.topology != case.topology:
            found.append("topology")
        if not self._in_precision(case):
            found.append("precision")
        largest = self.searched == case.searched
        if self.searched == "batch_size":
            found += [] if largest or self.batch_size == case.batch_size else ["batch"]
        elif self.batch_size not in (None, case.batch_size) or case.searched == "batch_size":
            found.append("batch")
        if self.searched not in ("", "batch_size") and not largest:
            found.append(self.searched)
        if self.xla is not None and self.xla != (case.compiler == "xla"):
            found.append("compiler")
        if self.data and self.data != case.data:
            found.append("data")
        if self.epochs not in (None, case.epochs):
            found.append("epochs")
        asked = {name: getattr(case.layout, name) for name, _ in self.layout}
        found += [name for name, value in self.layout if asked[name] != value]
        found += [name for name, value in self.sizes if case.dimensions[name] != value]
        return found

    def _in_precision(self, case: Case) -> bool:
        if self.precision != "amp":
            return self.precision == case.precision
        # published is float16, which `amp` is where a card or a framework has nothing else
        has_bfloat16 = frameworks.find(case.framework).half["cuda"] != ("float16",)
        if case.precision == "amp":
            return not (has_bfloat16 and self.card.startswith("A100"))
        return case.precision == "amp_fp16"


def nearest(cell: Published, cases: Iterable[Case]) -> list[str]:
    """How the case that is most alike differs; ['no case'] where there is none of its kind."""
    alike = [
        cell.differs(case)
        for case in cases
        if (case.workload, case.framework, case.scenario)
        == (cell.workload, cell.framework, cell.scenario)
    ]
    return min(alike, key=len, default=["no case"])


def cells(publication: Path) -> list[Published]:
    """Each cell of a publication once."""
    config = publications.load(publication)
    found: dict[Published, None] = {}
    for file in config.files:
        table, read = values.read_both(ROOT / file, config.names)
        rows = dict(table.rows)
        for value in read:
            for cell in _cells(value, rows[value.line], value.hardware or config.hardware):
                found.setdefault(cell)
    return list(found)


def _cells(value: values.Value, row: dict[str, str], card: str) -> Iterator[Published]:
    """The cells that a value is of: a training in two phases is of two."""
    xla = {"yes": True, "no": False}.get(row.get("xla", ""))
    cell = Published(
        value.workload,
        value.framework,
        value.scenario,
        value.precision,
        f"{value.nodes}n{value.devices_per_node}d",
        card,
        value.batch_size,
        "batch_size" if value.batch_label == "max" else "",
        xla if {"xla"} <= set(frameworks.find(value.framework).compilers) else None,
        data_as_read(value.implementation, value.data),
        int(row["epochs"]) if row.get("epochs") else None,
    )
    yield from OF_WORKLOAD.get(value.workload, _with_dimensions)(cell, value, row)


def _with_dimensions(cell: Published, value: values.Value, row: dict[str, str]):
    """By the names that the workload's facts gave them."""
    own = workloads.dimensions(cell.workload)
    sizes = {
        name: int(text) if text.isdigit() else text
        for name, text in value.dimensions.items()
        if name in own
    }
    yield replace(cell, sizes=tuple(sorted(sizes.items())))


def _wide_deep(cell: Published, value: values.Value, row: dict[str, str]):
    """Rows of HugeCTR are published per GPU. Several devices share the tables."""
    devices = value.nodes * value.devices_per_node
    rows = int(row["vocab_size"]) * (devices if cell.framework == "hugectr" else 1)
    sizes = {
        "vocabulary": rows,
        "width": int(row["embedding_vec_size"]),
        "layers": int(row["hidden_units"]),
        "tables": "sharded" if devices > 1 else "replicated",
    }
    batch = int(row["batch_size_total"]) // devices
    yield replace(cell, batch_size=batch, sizes=tuple(sizes.items()))


def _gpt(cell: Published, value: values.Value, row: dict[str, str]):
    """Every layer is recomputed, but beside ZeRO."""
    names = ("tensor_parallel", "pipeline_parallel", "accumulation", "zero_stage")
    told = value.dimensions
    layout = {name: int(told.get(name, 0 if name == "zero_stage" else 1)) for name in names}
    layout["activation_checkpointing"] = int("zero_stage" not in told)
    (found,) = _with_dimensions(cell, value, row)
    yield replace(found, layout=tuple(layout.items()))


def _electra(cell: Published, value: values.Value, row: dict[str, str]):
    """Pre-training, of one phase or of both; and fine-tuning, another workload here."""
    if row["mode"] != "pretrain" and "SQuAD" in row["dataset"]:
        scenario = {"finetune": "train", "inference": "infer"}.get(row["mode"], "quality")
        data = {"SQuAD v1.1": "squad", "SQuAD v2.0": "squad2"}[row["dataset"]]
        weights = row["model"] == "ELECTRA-base (Wiki+Books)"
        yield replace(
            cell,
            workload="electra_squad",
            scenario=scenario,
            data=data,
            sizes=(("sequence_length", int(row["seq_len"])),),
            beyond=("weights",) if weights else (),
        )
        return
    if value.metric != "throughput":
        yield replace(cell, scenario="quality")
        return
    layout = (("accumulation", int(row["accumulation_steps"])),)
    sizes = (("sequence_length", int(row["seq_len"])),)
    yield replace(cell, layout=layout, sizes=sizes)


def _insightface(cell: Published, value: values.Value, row: dict[str, str]):
    (found,) = _with_dimensions(cell, value, row)
    largest = value.metric == "max_num_classes"
    yield replace(found, searched="num_classes") if largest else found


OF_WORKLOAD = {
    "wide_deep": _wide_deep,
    "insightface": _insightface,
    "gpt": _gpt,
    "electra": _electra,
}
