"""Published latencies, memory and inference beside a round: a verdict where it is the same
quantity, a reason where it is another one, or may be."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from analysed_round import analyse
from conftest import ROOT
from generated_round import config, write_round
from published_round import held_against, imported, publish

from dlperf.analysis.compare import published_values
from dlperf.analysis.schema.files import Row, read_table

ON_GPU = {"device": "cuda", "frameworks": ["pytorch"], "topologies": ["1n1d"], "repetitions": 7}
ON_GPU |= {"resnet50_compilers": ["off"], "beside": ["mine"]}
#: What a publication says of a cell of such a round.
PUBLISHED = {
    **{"framework": "pytorch", "workload": "resnet50", "precision": "fp32", "nodes": 1},
    **{"devices_per_node": 1, "batch_size": 8, "data": "sample", "image_size": 64},
    **{"hardware": "Example GPU", "source": "a page"},
}
LATENCY = {"scenario": "infer", "metric": "latency", "unit": "ms", "estimator": "median of 5 runs"}
STEP = {"scenario": "train", "metric": "latency", "unit": "ms", "estimator": "wall clock"}
MEMORY = {"scenario": "train", "metric": "memory", "unit": "GiB"}
MEMORY |= {"estimator": "peak of the process by NVML, median of 5 runs"}


@pytest.fixture(scope="module")
def inferring(tmp_path_factory) -> Path:
    """A round that infers in batches of 1 and 8."""
    keys = {**ON_GPU, "resnet50_scenarios": ["infer"], "steps": {"warmup": 20, "measured": 400}}
    root = tmp_path_factory.mktemp("inferring")
    results = write_round(root, config(**keys, resnet50_batch_sizes={"fp32": [1, 8]}))
    analyse(results)
    return results


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> Path:
    """A round that trains, on one and on two devices; its memory scatters a little."""

    def scattered(record) -> None:
        for rank in record["memory"]:
            rank["device_total_peak_bytes"] += 10**7 * record["identity"]["repetition"]

    root, keys = tmp_path_factory.mktemp("training"), {**ON_GPU, "topologies": ["1n1d", "1n2d"]}
    results = write_round(root, config(**keys), change=scattered)
    analyse(results)
    return results


def measured(results: Path, metric: str, batch: int = 8, devices: int = 1) -> float:
    (cell,) = [
        row
        for row in read_table(results / "cells.tsv")
        if (row["metric"], row["batch_size"], row["devices_per_node"]) == (metric, batch, devices)
        and not row["over"]
    ]
    return float(cell["median"])


def value(results: Path, parts: dict[str, Any], of: str, factor: float = 1, **more: Any) -> Row:
    """A row of a publication that has `factor` times the number of a metric of ours."""
    devices, batch = parts.get("devices_per_node", 1), more.get("batch_size", 8)
    own = {"value": factor * measured(results, of, batch=batch, devices=devices)}
    return {**PUBLISHED, **own, **parts, **more}


def judged(results: Path, rows: dict[str, Row]) -> dict[str, Row]:
    """The verdicts on these published values, all of one publication, by their names here."""
    named = [{**row, "implementation": name} for name, row in rows.items()]
    return {row["implementation"]: row for row in held_against(results, *named)}


# Honest values, which must have the right verdict: parts of a row, the metric of ours whose number
# it has, by which factor it is written.

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
FACTORS = {1: "reproduced", 1.02: "reproduced", 1.25: "faster", 0.8: "slower"}
HONEST: dict[str, tuple[dict[str, Any], str, float]] = {
    "seconds": ({"unit": "s", "statistic": "p50"}, "latency_p50", 1e-3),
    "microseconds": ({"unit": "us", "statistic": "p99"}, "latency_p99", 1e3),
    "our name": ({"metric": "latency_p95"}, "latency_p95", 1),
    "the word median": ({"statistic": "median"}, "latency_p50", 1),
    "the percentile of one run": (
        {"statistic": "p99", "estimator": "99th percentile of 400 batches"},
        "latency_p99",
        1,
    ),
    "the mean of one run": (
        {"statistic": "mean", "estimator": "mean of 400 batches"},
        "latency_mean",
        1,
    ),
    "inference throughput": (
        {"metric": "throughput", "unit": "images/s", "estimator": "wall clock"},
        "throughput",
        1,
    ),
}


@pytest.fixture(scope="module")
def latencies(inferring) -> dict[str, Row]:
    """The verdicts on many published latencies beside a round that infers."""
    rows = {
        f"{each} by {by}": value(inferring, {**LATENCY, "statistic": each}, f"latency_{each}", by)
        for each in STATISTICS
        for by in FACTORS
    }
    for name, (parts, of, factor) in HONEST.items():
        rows[name] = value(inferring, {**LATENCY, **parts}, of, factor)
    for name, (parts, of, _) in OTHER_LATENCIES.items():
        rows[name] = {**value(inferring, LATENCY, of), **parts}
    for batch in (1, 8):
        row = value(inferring, {**LATENCY, "statistic": "p50"}, "latency_p50", batch_size=1)
        rows[f"the number of batch 1 at batch {batch}"] = {**row, "batch_size": batch}
    for name, factor in MISTAKEN.items():
        rows[name] = value(inferring, {**LATENCY, "statistic": "p50"}, "latency_p50", factor)
    for name, changes in ELSEWHERE.items():
        rows[name] = {**value(inferring, {**LATENCY, "statistic": "p50"}, "latency_p50"), **changes}
    return judged(inferring, rows)


@pytest.mark.parametrize(("by", "said"), FACTORS.items())
@pytest.mark.parametrize("statistic", STATISTICS)
def test_a_latency_is_held_against_the_same_statistic_and_less_is_faster(
    latencies, statistic, by, said
):
    row = latencies[f"{statistic} by {by}"]
    assert (row["verdict"], row["reason"]) == (said, "")
    assert row["metric"] == f"latency_{statistic}" and row["unit"] == "ms"
    assert row["ratio"] == pytest.approx(1 / by) and row["better"] == "lower"


@pytest.mark.parametrize(("name", "of"), [(name, of) for name, (_, of, _) in HONEST.items()])
def test_an_honest_value_is_reproduced(latencies, name, of):
    row = latencies[name]
    assert (row["verdict"], row["reason"], row["metric"]) == ("reproduced", "", of)
    assert row["ratio"] == pytest.approx(1)


#: Of a training: what a publication says, the metric of ours, the factor, the verdict.
TRAINED: dict[str, tuple[dict[str, Any], str, float, str]] = {
    "a step": (STEP, "step_time", 1, "reproduced"),
    "a slower step": (STEP, "step_time", 1.2, "faster"),
    "an iteration": ({**STEP, "metric": "latency_per_iter"}, "step_time", 1, "reproduced"),
    "our name": ({**STEP, "metric": "step_time"}, "step_time", 1, "reproduced"),
    "the mean": ({**STEP, "statistic": "mean"}, "step_time", 1, "reproduced"),
    "the mean of steps": ({**STEP, "estimator": "mean of 9 steps"}, "step_time", 1, "reproduced"),
    "memory": (MEMORY, "memory", 1, "reproduced"),
    "memory in MiB": ({**MEMORY, "unit": "MiB"}, "memory", 1024, "reproduced"),
    "memory nearly": (MEMORY, "memory", 1.04, "reproduced"),
    "more memory there": (MEMORY, "memory", 1.25, "less"),
    "less memory there": (MEMORY, "memory", 0.8, "more"),
    "the only device": ({**MEMORY, "metric": "gpu_memory_device0"}, "memory", 1, "reproduced"),
    "memory in bytes": ({**MEMORY, "unit": "B"}, "memory", 2**30, "reproduced"),
    "two devices": ({**MEMORY, "devices_per_node": 2}, "memory", 1, "reproduced"),
}


@pytest.fixture(scope="module")
def trained(training) -> dict[str, Row]:
    """The verdicts on many published values beside a round that trains."""
    rows = {
        name: value(training, parts, of, factor) for name, (parts, of, factor, _) in TRAINED.items()
    }
    for name, (kind, parts, of, _) in OTHERS.items():
        rows[name] = value(training, {**kind, **parts}, of)
    return judged(training, rows)


@pytest.mark.parametrize(("name", "said"), [(name, each[3]) for name, each in TRAINED.items()])
def test_steps_and_memory_have_verdicts_and_memory_is_never_faster(trained, name, said):
    row, (_, of, factor, _) = trained[name], TRAINED[name]
    assert (row["verdict"], row["reason"], row["metric"]) == (said, "", of)
    unit = {"MiB": 1024, "B": 2**30}.get(TRAINED[name][0]["unit"], 1)
    assert row["ratio"] == pytest.approx(unit / factor)


def test_repetitions_of_a_latency_are_repetitions_and_three_are_too_few(inferring):
    rows = [
        value(inferring, {**LATENCY, "statistic": each}, f"latency_{each}", by, repetition=number)
        for number, by in enumerate((0.98, 0.99, 1, 1.01, 1.02), 1)
        for each in ("p50", "p99")
        if each == "p50" or number < 4
    ]
    five, three = held_against(inferring, *rows)
    assert (five["verdict"], five["baseline_n_ok"]) == ("reproduced", 5)
    assert three["reason"] == "too few repetitions there: 3, and 4 are needed"


def test_rates_latencies_and_memory_of_a_publication_share_one_error_rate(trained, training):
    tested = [row for row in trained.values() if row["p"] is not None]
    assert {row["metric"] for row in tested} == {"step_time", "memory"}
    row = trained["a step"]
    (alone,) = judged(training, {"a step": value(training, STEP, "step_time")}).values()
    assert alone["p"] == row["p"] and alone["p_corrected"] < row["p_corrected"]


def published(folder: Path, name: str) -> published_values.Read:
    """What one of the project's own publications says beside training throughput."""
    imported(ROOT / f"config/published/{name}.yaml", folder / f"imported-{name}")
    notes = yaml.safe_load((ROOT / f"config/published/{name}.yaml").read_text()).get("notes", {})
    return published_values.read(folder / f"imported-{name}/values.tsv", notes)


def test_gpts_rates_under_names_of_cases_have_our_metrics_and_layout(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = published(tmp_path, "dlperf-v1-gpt")
    assert len(found.cells) == 198
    tested = {
        cell["metric"] for cell, why in zip(found.cells, found.unlike, strict=True) if not why
    }
    assert tested == {"throughput", "step_time", "memory"}
    (cell,) = [
        cell
        for cell in found.cells
        if cell["metric"] == "step_time"
        and cell["framework"] == "megatron"
        and (cell["tensor_parallel"], cell["nodes"]) == (8, 1)
        and cell["batch_size"] == 16
        and cell["width"] == 1536
    ][:1]
    assert (cell["unit"], cell["better"], cell["sequence_length"]) == ("ms", "lower", 2048)


def test_a_note_on_what_numbers_really_are_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = published(tmp_path, "nvidia-mxnet-resnet50")
    for cell, why in zip(found.cells, found.unlike, strict=True):
        if cell["metric"].startswith("latency"):
            assert any("pipelined loop" in each for each in why)
        if cell["metric"] == "throughput":
            assert why == []


def test_dimensions_under_other_names_are_ours(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = published(tmp_path, "dlperf-v1-wide-deep")
    memory = [cell for cell in found.cells if cell["metric"] == "memory"]
    assert {cell["vocabulary"] for cell in memory} > {3200000, 51200000}
    assert {(cell["width"], cell["layers"]) for cell in memory} == {(16, 7), (32, 7)}
    for cell, why in zip(found.cells, found.unlike, strict=True):
        said = [each for each in why if "device 0" in each]
        assert bool(said) == (cell["metric"] == "memory" and cell["devices_per_node"] > 1)
        assert ("whether MB is 10^6 or 2^20 bytes there is not said" in why) == (
            cell["metric"] == "memory"
        )


# Values that must not be called reproduced, although the number is ours.

#: parts of the row, the metric of ours whose number it has, what the reason says.
OTHER_LATENCIES: dict[str, tuple[dict[str, Any], str, str]] = {
    "a percentile that is not measured": (
        {"statistic": "p75"},
        "latency_p50",
        "another statistic: p75 there, mean, p50, p90, p95 and p99 here",
    ),
    "a percentile under another's name": (
        {"metric": "latency_p50", "estimator": "p99 over the batches, median of 5 runs"},
        "latency_p50",
        "another statistic: p99 there, p50 here",
    ),
    "a percentile and another statistic": (
        {"metric": "latency_p99", "statistic": "mean"},
        "latency_p99",
        "another statistic: mean there, p99 here",
    ),
    "a latency of no statistic": ({}, "latency_p50", "whether their latency is a mean"),
    "a deviation": ({"statistic": "stdev"}, "latency_mean", "another statistic: stdev there"),
    "an average of what is a percentile here": (
        {"statistic": "p50", "estimator": "mean of 100 batches"},
        "latency_p50",
        "how their figure was computed is not known",
    ),
    "the lowest of several": (
        {"statistic": "p50", "estimator": "lowest of 5 runs"},
        "latency_p50",
        "the best or worst of several",
    ),
    "the slowest of several": (
        {"statistic": "p50", "estimator": "slowest of 5 runs"},
        "latency_p50",
        "the best or worst of several",
    ),
    "no estimator": ({"statistic": "p50", "estimator": ""}, "latency_p50", "nothing is said"),
    "a time of one sample": (
        {"statistic": "p50", "estimator": "median of 5 runs, per image"},
        "latency_p50",
        "their time is of a sample, ours is of a batch",
    ),
    "a unit of one sample": (
        {"statistic": "p50", "unit": "ms/image"},
        "latency_p50",
        "another unit: ms here, ms/image there",
    ),
    "no unit": ({"statistic": "p50", "unit": ""}, "latency_p50", "another unit: ms here, none"),
    "another batch": (
        {"statistic": "p50", "batch_size": 4},
        "latency_p50",
        "another batch per device",
    ),
    "a batch that is not named": (
        {"statistic": "p50", "batch_size": ""},
        "latency_p50",
        "not known there",
    ),
    "the longest of all": ({"metric": "latency_max"}, "latency_max", "no verdict on latency max"),
    "what nobody measures here": (
        {"metric": "tail_latency", "statistic": ""},
        "latency_p99",
        "nothing of that name is measured here: tail latency",
    ),
    "a dimension that no cell has": (
        {"statistic": "p50", "clients": 4},
        "latency_p50",
        "clients 4 there, which no cell here has",
    ),
    "out of memory": (
        {"statistic": "p50", "value": "", "note": "OOM"},
        "latency_p50",
        "no figure there: out of memory",
    ),
}


#: Wrong units that do not show: the number is by so much another one.
MISTAKEN = {"seconds that are called milliseconds": 1e-3, "a sample's share of a batch": 1 / 8}
#: Of what was not measured here.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "another workload": {"workload": "dlrm"},
    "another scenario": {"scenario": "finetune"},
    "another framework": {"framework": "mxnet"},
    "another precision": {"precision": "fp8"},
}


@pytest.mark.parametrize(
    ("name", "said"), [(name, said) for name, (*_, said) in OTHER_LATENCIES.items()]
)
def test_another_latency_is_not_testable(latencies, name, said):
    row = latencies[name]
    assert row["verdict"] == "not testable"
    assert said in row["reason"]
    assert row["ratio"] is None and row["p"] is None


@pytest.mark.parametrize("name", MISTAKEN)
def test_a_number_in_another_unit_than_it_says_is_not_reproduced(latencies, name):
    assert latencies[name]["verdict"] == "slower"
    assert latencies[name]["ratio"] == pytest.approx(1 / MISTAKEN[name])


def test_a_latency_is_never_held_against_the_one_of_another_batch(latencies):
    """That has the same number by chance."""
    one, eight = (latencies[f"the number of batch 1 at batch {batch}"] for batch in (1, 8))
    assert (one["verdict"], one["batch_size"]) == ("reproduced", 1)
    assert (eight["verdict"], eight["batch_size"]) == ("slower", 8)


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_value_of_what_is_not_measured_here_has_no_counterpart(latencies, name):
    assert (latencies[name]["verdict"], latencies[name]["reason"]) == ("no counterpart", "")


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any], str, str]] = {
    "a median of single steps": (
        STEP,
        {"estimator": "median of 100 steps"},
        "step_time",
        "a median of single steps",
    ),
    "a median as the statistic": (
        STEP,
        {"statistic": "median"},
        "step_time",
        "a median of single steps",
    ),
    "a percentile of steps": (STEP, {"statistic": "p99"}, "step_time", "the p99 of several"),
    "a metric that no cell has": (
        STEP,
        {"metric": "tokens", "unit": "tokens/s"},
        "throughput",
        "not measured here: tokens",
    ),
    "a mean of rates": (
        STEP,
        {"metric": "tokens", "unit": "tokens/s", "statistic": "mean"},
        "throughput",
        "their figure is a mean of rates",
    ),
    "memory in MB": (MEMORY, {"unit": "MB"}, "memory", "whether MB is 10^6 or 2^20 bytes"),
    "memory of nobody knows what": (
        MEMORY,
        {"estimator": "median of 5 runs"},
        "memory",
        "is not said",
    ),
    "memory that was allocated": (
        MEMORY,
        {"estimator": "peak of what was allocated"},
        "memory",
        "other memory: what a process holds here, what it allocated there",
    ),
    "the average of samples of memory": (
        MEMORY,
        {"estimator": "average of nvidia-smi"},
        "memory",
        "how their figure was computed is not known",
    ),
    "the highest of several runs": (
        MEMORY,
        {"estimator": "nvidia-smi, maximum of 5 runs"},
        "memory",
        "the best or worst of several",
    ),
    "device 0 of two": (
        MEMORY,
        {"metric": "gpu_memory_device0", "devices_per_node": 2},
        "memory",
        "that of device 0, ours is that of the device that took most",
    ),
    "achieved FLOP/s": (
        STEP,
        {"metric": "achieved_flops_per_gpu", "unit": "TFLOP/s"},
        "tflops",
        "nothing of that name is measured here: achieved flops per gpu",
    ),
    "our TFLOP/s, by another count": (
        STEP,
        {"metric": "tflops", "unit": "TFLOP/s"},
        "tflops",
        "no verdict on tflops",
    ),
}


@pytest.mark.parametrize(("name", "said"), [(name, each[3]) for name, each in OTHERS.items()])
def test_another_quantity_is_not_testable(trained, name, said):
    assert trained[name]["verdict"] == "not testable"
    assert said in trained[name]["reason"]
    assert trained[name]["ratio"] is None


def test_what_is_no_speed_is_called_by_their_name(trained):
    row = trained["achieved FLOP/s"]
    assert (row["metric"], row["unit"]) == ("achieved_flops_per_gpu", "TFLOP/s")
    assert row["median"] is None and row["baseline_median"] > 0


def test_of_several_estimates_of_a_run_the_first_one_counts(training):
    rate = {"metric": "throughput", "unit": "images/s", "value": measured(training, "throughput")}
    rows = [{**PUBLISHED, **rate, "estimator": each} for each in ("wall clock", "mean_of_rates")]
    first, second = held_against(training, *rows)
    assert first["verdict"] == "reproduced"
    assert second["verdict"] == "not testable"
    assert second["reason"] == "another estimate of a run whose first one counts"


#: Rounds of which a published p50 must not be called reproduced: how they were made, what is said.
DOUBTFUL: dict[str, tuple[dict[str, Any], str]] = {
    "one repetition": ({"repetitions": 1}, "too few repetitions here: 1, and 4 are needed"),
    "too few batches": ({"measured": 4}, "no figure here: not measured: a p50 takes 6 batches"),
    "no certificate": ({"verdict": lambda case: "missing"}, "equal work is not certified here"),
}


@pytest.mark.parametrize(("changes", "said"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_latency_in_doubt_here_is_not_testable(tmp_path, changes, said):
    keys = {**ON_GPU, "resnet50_scenarios": ["infer"], "repetitions": changes.get("repetitions", 5)}
    steps = {"warmup": 2, "measured": changes.get("measured", 20)}
    options = {key: changes[key] for key in ("verdict",) if key in changes}
    results = write_round(tmp_path, config(**keys, steps=steps), **options)
    analyse(results)
    row = {**PUBLISHED, **LATENCY, "statistic": "p50", "value": 619.7}
    (found,) = held_against(results, row)
    assert found["verdict"] == "not testable" and said in found["reason"]


def test_mixed_precision_of_a_latency_is_of_the_type_that_it_computes_in(tmp_path):
    """Which stands in the row of the case's throughput, and counts for its latency."""

    def in_bfloat16(record) -> None:
        record["parity"]["compute_dtype"] = "bfloat16"

    keys = {**ON_GPU, "resnet50_scenarios": ["infer"], "resnet50_precisions": ["amp"]}
    steps = {"warmup": 2, "measured": 20}
    results = write_round(tmp_path, config(**keys, steps=steps), change=in_bfloat16)
    analyse(results)
    own = {"statistic": "p50", "batch_size": 16, "precision": "amp", "value": 774.6}
    (row,) = held_against(results, {**PUBLISHED, **LATENCY, **own})
    assert row["reason"] == "another precision: computes in bfloat16 here, float16 there"


def test_a_latency_of_zero_or_less_is_refused_when_it_is_imported(inferring, capsys):
    for number in (0, -3):
        row = {**PUBLISHED, **LATENCY, "statistic": "p50", "value": number}
        with pytest.raises(AssertionError):
            publish(inferring.parent, row)
        assert "is not above 0" in capsys.readouterr().err


def test_a_compiler_that_is_not_named_is_none_in_latencies_and_memory_too(tmp_path):
    keys = {**ON_GPU, "frameworks": ["mxnet"], "resnet50_compilers": ["default"]}
    results = write_round(tmp_path, config(**keys))
    analyse(results)
    step = value(results, STEP, "step_time", framework="mxnet")
    rows = {"unsaid": step, "stated": {**step, "compiler": "none"}}
    rows |= {"named": {**step, "compiler": "static"}}
    found = judged(results, rows)
    assert {name: row["reason"] for name, row in found.items()} == {
        "unsaid": "",
        "stated": "another compiler: static here, none there",
        "named": "",
    }
    assert "compiler: static here, none named there" in found["unsaid"]["differs"]
    assert "compiler" not in found["named"]["differs"]
    assert found["unsaid"]["unsaid"].split()[0] == "compiler"
