"""The published tables' own CSV form -> fields of `Value`.

config/published/README.md has the columns. Labels of frameworks and models are put into this
project's words here, and nowhere else; what they say of a workload of this project, its facts know
(`PUBLISHED`, `published_fields`). Numbers are not touched.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dlperf import frameworks, workloads
from dlperf.analysis.publications.values import NO_COMPILER, Problems, Table, not_a_number
from dlperf.contract.published import Published
from dlperf.loaders import libraries

NEEDED = {"report", "table", "framework", "model", "gpus_per_node", "metric", "value"}
#: What it has besides, if it has those.
BESIDE = ("precision", "nodes", "devices", "unit")
#: Columns with numbers, where they are filled in.
NUMBERS = ("value", "speedup", "memory_ratio")
COUNTS = ("nodes", "gpus_per_node", "devices")
WHOLE = (
    *("vocab_size", "embedding_vec_size", "hidden_units", "batch_size_total"),
    *("dp", "tp", "pp", "global_batch", "micro_batch", "accumulation", "hidden", "layers", "heads"),
)
#: Of those there may be one a phase, as in '128|512'.
OF_PHASES = ("seq_len", "accumulation_steps")
#: A ratio that was computed when a table was taken down stands in its note.
DERIVED = "derived_speedup="
#: How a publication calls an implementation -> (framework, implementation's label).
IMPLEMENTATIONS = {
    "OneFlow": ("oneflow", "OneFlow"),
    "OneFlow W/O clip": ("oneflow", "OneFlow"),
    "NGC MXNet": ("mxnet", "NGC MXNet"),
    "MXNet (NGC)": ("mxnet", "NGC MXNet"),
    "MXNet": ("mxnet", "MXNet"),
    "MXNet W/O clip": ("mxnet", "MXNet"),
    "NGC TensorFlow 1.x": ("tensorflow1", "NGC TensorFlow 1.x"),
    "TensorFlow 2.x": ("tensorflow", "TensorFlow 2.x"),
    "TensorFlow 2 (NGC)": ("tensorflow", "NGC TensorFlow 2"),
    "NGC PyTorch": ("pytorch", "NGC PyTorch"),
    "PyTorch": ("pytorch", "PyTorch"),
    "PaddlePaddle": ("paddlepaddle", "PaddlePaddle"),
    "MindSpore": ("mindspore", "MindSpore"),
    "HugeCTR": ("hugectr", "HugeCTR"),
    "Megatron-LM": ("megatron", "Megatron-LM"),
}
#: What stands behind the label of an implementation that is published with NVIDIA DALI and without.
WITH_DALI = ", DALI"
#: How it calls a model -> (workload, what is published of it).
MODELS = {
    model: (workload, published)
    for workload in workloads.NAMES
    for model, published in workloads.of(workload).published.items()
}
SCENARIOS = {
    "": "train",
    "train": "train",
    "pretrain": "train",
    "train_accuracy": "quality",
    "finetune": "finetune",
    "finetune_accuracy": "quality",
    "stability": "quality",
    "inference": "infer",
}
#: What may stand in a column: '' is nothing said.
WORDS = {
    "framework": tuple(IMPLEMENTATIONS),
    "model": tuple(MODELS),
    "mode": tuple(SCENARIOS),
    **dict.fromkeys(("xla", "dali", "clip"), ("", "yes", "no")),
}
#: Columns that are the workload's own dimensions, where they are filled in.
DIMENSIONS = (
    *("batch_size_total", "vocab_size", "embedding_vec_size", "hidden_units"),
    *("backbone", "dataset", "loss", "parallel", "sample_ratio"),
    *("case", "group", "dp", "tp", "pp", "global_batch", "micro_batch", "accumulation"),
    *("hidden", "layers", "heads", "seq_len", "params_billion"),
    *("phase", "accumulation_steps", "epochs", "percentile"),
)


def data_as_read(implementation: str, data: str) -> str:
    """The kind of data of a published figure: ImageNet is the same for DALI, its speed is not."""
    return libraries.by_dali(data) if data and implementation.endswith(WITH_DALI) else data


def of_model(model: str) -> Published:
    """What is published of a model; nothing of one that is not known."""
    return MODELS.get(model, ("", Published()))[1]


def is_published(columns: Sequence[str]) -> bool:
    return set(columns) >= NEEDED


def rows(table: Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, fields of a Value). Ratios are no measurements: speedups.py has them."""
    problems = Problems(table.file)
    for column in BESIDE:
        if column not in table.columns:
            problems.add(1, f"the column {column!r} is missing")
    problems.refuse()
    for line, row in table.rows:
        _check_numbers(line, row, problems)
        allowed = WORDS | {"clip": ("yes", "no")} if _clips(row["model"]) else WORDS
        for column, known in allowed.items():
            if row.get(column, "") not in known:
                problems.unknown(line, column, row.get(column, ""), filter(None, known))
    problems.refuse()
    for line, row in table.rows:
        if row["metric"] != "precision_speedup":
            try:
                fields = _fields(row)
            except (KeyError, ValueError) as error:  # of a column that the workload's facts read
                problems.add(line, f"its columns do not say what {row['model']} needs: {error}")
                continue
            yield line, fields
    problems.refuse()


def _check_numbers(line: int, row: dict[str, str], problems: Problems) -> None:
    """Add each number of a row that is none."""
    for column in NUMBERS:
        text = row.get(column, "")
        if text and (wrong := not_a_number(text)):
            problems.add(line, f"{column}: {text!r} {wrong}", f"{column}: {wrong}")
    derived = row.get("note", "")
    if derived.startswith(DERIVED) and (wrong := not_a_number(derived.removeprefix(DERIVED))):
        problems.add(line, f"note: {derived!r} {wrong}", f"note: {wrong}")
    if row["metric"] == "precision_speedup" and not row["value"]:
        problems.add(line, "value: is empty, and a ratio has no other number")
    for column in WHOLE + COUNTS + OF_PHASES:
        text = row.get(column, "")
        shape = r"[1-9][0-9]{0,14}"
        if column in OF_PHASES:
            shape = rf"{shape}(\|{shape})*"
        elif column in WHOLE:
            shape = r"[0-9]{1,15}"
        if not re.fullmatch(shape, text) and (text or column in COUNTS):
            problems.add(line, f"{column}: {text!r} is not a whole number", f"{column}: whole")
            return
    nodes, each, all_of_them = (int(row[column]) for column in COUNTS)
    if nodes * each != all_of_them:
        message = f"devices: {all_of_them} are not {nodes} nodes x {each} gpus_per_node"
        problems.add(line, message, "devices")


def _clips(model: str) -> bool:
    """Whether the model's workload can clip gradients or not, so that its rows must say which."""
    workload, _ = MODELS.get(model, ("", None))
    return workload in workloads.NAMES and "clip" in workloads.dimensions(workload)


def _fields(row: dict[str, str]) -> dict[str, Any]:
    framework, implementation = IMPLEMENTATIONS[row["framework"]]
    workload, published = MODELS[row["model"]]
    if row.get("dali") == "yes" and framework == "paddlepaddle":
        implementation += WITH_DALI  # the others that have it, have nothing else
    batch = row.get("bsz_per_device", "")
    seed = re.fullmatch(r"seed(\d+)", row.get("stat", ""))
    found = {
        "framework": framework,
        "implementation": implementation,
        "workload": workload,
        "scenario": SCENARIOS[row.get("mode", "")],
        "precision": row["precision"],
        "compiler": _compiler(framework, row.get("xla", "")),
        "nodes": row["nodes"],
        "devices_per_node": row["gpus_per_node"],
        "batch_size": batch if batch.isdigit() else None,
        "data": published.data,
        "repetition": seed[1] if seed else 1,
        "metric": row["metric"],
        "value": row["value"] or None,
        "unit": row["unit"].strip("()").replace("sentences/s", "sequences/s"),
        "estimator": _estimator(row),
        "source": source(row),
        "note": row.get("note", "").strip("; "),
        "table": row["table"],
        "batch_label": heading(row, published),
        "hardware": row.get("gpu", ""),
        "inferred": row.get("inferred", ""),
        "dimensions": {key: row[key] for key in DIMENSIONS if row.get(key)},
    }
    if workload in workloads.NAMES:
        found.update(_of_facts(workload, row, found["dimensions"]))
    found["dimensions"] = _of_several(row, found["dimensions"])
    return {key: value for key, value in found.items() if value is not None}


def _compiler(framework: str, xla: str) -> str:
    """The compiler that a row names: of a framework that does not compile with XLA, 'no' says
    nothing."""
    own = frameworks.find(framework)
    if xla == "no" and not (own and "xla" in own.compilers):
        return ""
    return {"yes": "xla", "no": NO_COMPILER, "": ""}[xla]


def _of_facts(workload: str, row: dict[str, str], columns: dict[str, str]) -> dict[str, Any]:
    """Fields that the workload's facts fill in; they know what its own dimensions are."""
    hook = workloads.of(workload).published_fields
    return dict(hook(row, columns)) if hook else {}


def _of_several(row: dict[str, str], dimensions: dict[str, str]) -> dict[str, str]:
    """Dimensions with the statistic that a value is, and the batches that it is of."""
    found = dict(dimensions)
    if (batch := row.get("bsz_per_device", "")) and not batch.isdigit():
        found["batch"] = batch  # such as '88|12': one a phase
    statistic = row.get("stat", "")
    if statistic and statistic != "total IPS" and not statistic.startswith("seed"):
        found.pop("percentile", None)
        found["statistic"] = statistic  # mean, stdev, p90, …
    return found


def _estimator(row: dict[str, str]) -> str:
    return "as published" if "NVIDIA" in row["report"] else "median over repetitions, as published"


def source(row: dict[str, str]) -> str:
    """The publication and its table: 'reports/….md, FP32, batch size = 128'."""
    parts = [row["report"], row["table"], row.get("system", ""), row.get("container", "")]
    return ", ".join(filter(None, parts))


def heading(row: dict[str, str], published: Published) -> str:
    """The batch that heads the published table: 'max', '256'; '' where it is the row's own."""
    if re.search(r"batch size = max", row["table"]) or "bsz=max" in row.get("note", ""):
        return "max"
    found = re.search(r"batch size = (\d+)", row["table"])
    if found:
        return found[1]
    return published.headings.get((row["table"], row["precision"]), "")
