"""The published tables' own CSV form -> fields of `Value`.

config/published/README.md has the columns. Labels of frameworks and models are put into this
project's words here, and nowhere else; numbers are not touched.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dlperf.analysis.publications.values import Problems, Table

NEEDED = {"report", "table", "framework", "model", "gpus_per_node", "metric", "value"}
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
    "Megatron-LM": ("pytorch", "Megatron-LM"),
}
#: How it calls a model -> (workload, kind of data it trained on where no column says so).
MODELS = {
    "ResNet50-v1.5": ("resnet50", "imagenet"),
    "BERT-base": ("bert", "wikipedia"),
    "Wide&Deep": ("wide_deep", "criteo"),
    "InsightFace": ("insightface", ""),
    "GPT": ("gpt", ""),
    "ELECTRA-base": ("electra", ""),
    "ELECTRA-base++": ("electra", ""),  # the weights that were fine-tuned
    "ELECTRA-base (Wiki+Books)": ("electra", ""),
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
#: A front page that has each framework's own batch in one table: the one that heads it.
HEADED = {("ResNet50-V1.5 summary", "amp"): "256"}


def is_published(columns: Sequence[str]) -> bool:
    return set(columns) >= NEEDED


def rows(table: Table) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, fields of a Value). Ratios are no measurements: speedups.py has them."""
    problems = Problems(table.file)
    for line, row in table.rows:
        allowed = WORDS | {"clip": ("yes", "no")} if row["model"] == "BERT-base" else WORDS
        for column, known in allowed.items():
            if row.get(column, "") not in known:
                problems.unknown(line, column, row.get(column, ""), filter(None, known))
    problems.refuse()
    for line, row in table.rows:
        if row["metric"] != "precision_speedup":
            yield line, _fields(row)


def _fields(row: dict[str, str]) -> dict[str, Any]:
    framework, implementation = IMPLEMENTATIONS[row["framework"]]
    workload, data = MODELS[row["model"]]
    if _of_micro_steps(row):
        data = "wikipedia_books"
    if row.get("dali") == "yes" and framework == "paddlepaddle":
        implementation += ", DALI"  # the others that have it, have nothing else
    batch = row.get("bsz_per_device", "")
    seed = re.fullmatch(r"seed(\d+)", row.get("stat", ""))
    found = {
        "framework": framework,
        "implementation": implementation,
        "workload": workload,
        "scenario": SCENARIOS[row.get("mode", "")],
        "precision": row["precision"],
        "compiler": "xla" if row.get("xla") == "yes" else "none",
        "nodes": row["nodes"],
        "devices_per_node": row["gpus_per_node"],
        "batch_size": batch if batch.isdigit() else None,
        "data": data,
        "repetition": seed[1] if seed else 1,
        "metric": row["metric"],
        "value": row["value"] or None,
        "unit": row["unit"].strip("()").replace("sentences/s", "sequences/s"),
        "estimator": _estimator(row),
        "source": source(row),
        "note": row.get("note", "").strip("; "),
        "table": row["table"],
        "batch_label": heading(row),
        "hardware": row.get("gpu", ""),
        "dimensions": _dimensions(workload, row),
    }
    return {key: value for key, value in found.items() if value is not None}


def _dimensions(workload: str, row: dict[str, str]) -> dict[str, str]:
    """The workload's own dimensions, by the names that its facts have where it has facts."""
    if workload == "bert":
        return {"sequence_length": "128", "clip": "0" if row["clip"] == "no" else "1"}
    if _of_micro_steps(row):
        return {"sequence_length": row["seq_len"], "accumulation": row["accumulation_steps"]}
    own = {key: row[key] for key in DIMENSIONS if row.get(key)}
    if workload == "resnet50":
        own["image_size"] = "224"
        own.pop("dataset", None)  # the column `data` has it
    if workload == "electra" and row["model"] != "ELECTRA-base":
        own["weights"] = row["model"].removeprefix("ELECTRA-base").strip(" ()")
    if (batch := row.get("bsz_per_device", "")) and not batch.isdigit():
        own["batch"] = batch  # such as '88|12': one a phase
    statistic = row.get("stat", "")
    if statistic and statistic != "total IPS" and not statistic.startswith("seed"):
        own.pop("percentile", None)
        own["statistic"] = statistic  # mean, stdev, p90, …
    return own


def _of_micro_steps(row: dict[str, str]) -> bool:
    """Whether it is a speed of ELECTRA's pre-training, of updates of many micro-steps."""
    of = row["model"], row.get("mode"), row["metric"]
    return of == ("ELECTRA-base", "pretrain", "throughput")


def _estimator(row: dict[str, str]) -> str:
    if _of_micro_steps(row):
        return "mean of the rates of single micro-steps, as published"
    return "as published" if "NVIDIA" in row["report"] else "median over repetitions, as published"


def source(row: dict[str, str]) -> str:
    """The publication and its table: 'reports/….md, FP32, batch size = 128'."""
    parts = [row["report"], row["table"], row.get("system", ""), row.get("container", "")]
    return ", ".join(filter(None, parts))


def heading(row: dict[str, str]) -> str:
    """The batch that heads the published table: 'max', '256'; '' where it is the row's own."""
    if re.search(r"batch size = max", row["table"]) or "bsz=max" in row.get("note", ""):
        return "max"
    found = re.search(r"batch size = (\d+)", row["table"])
    if found:
        return found[1]
    return HEADED.get((row["table"], row["precision"]), "")
