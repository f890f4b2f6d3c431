"""Published tables and tidy CSV: imported, shown as a measured round is, never mixed with one."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from analysed_round import SMALL, analyse
from analysis_steps import holding_against, merging
from conftest import ROOT
from generated_round import config, write_round
from published_round import imported

from dlperf import plan, workloads
from dlperf.analysis.__main__ import main
from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications import contradictions, records, speedups
from dlperf.analysis.publications import rows as rows_of
from dlperf.analysis.publications.values import COLUMNS
from dlperf.analysis.report import published, published_figures, published_tables, tables
from dlperf.analysis.round import flags, labels
from dlperf.analysis.schema.files import read_table

PUBLISHED = ROOT / "config/published"
ROW = {
    **dict.fromkeys(COLUMNS, ""),
    "framework": "mxnet",
    "implementation": "NGC MXNet",
    "workload": "resnet50",
    "precision": "fp32",
    "nodes": "1",
    "devices_per_node": "1",
    "batch_size": "128",
    "data": "imagenet",
    "metric": "throughput",
    "value": "391.53",
    "unit": "images/s",
    "estimator": "wall clock of 100 steps",
    "source": "r50_b128_fp32_5.log",
}


@pytest.fixture(autouse=True)
def _in_repository(monkeypatch):
    monkeypatch.chdir(ROOT)  # configs name files from there


@pytest.fixture(scope="module")
def v1(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        folder = tmp_path_factory.mktemp("results") / "imported-dlperf-v1"
        return imported(PUBLISHED / "dlperf-v1.yaml", folder)


def tidy(folder: Path, *rows: dict[str, str]) -> Path:
    """A tidy CSV with these changes of ROW, and a config that names it."""
    path = folder / "mine.csv"
    names = list(dict.fromkeys(key for row in ({**ROW, **row} for row in rows) for key in row))
    with open(path, "w", newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows({**ROW, **row} for row in rows)
    made = folder / "mine.yaml"
    made.write_text(f"round: imported-mine\ntitle: Mine\nfiles: [{path}]\n")
    return made


def test_a_published_table_comes_out_as_it_was_printed(v1):
    own = tables.select(read_table(v1 / "cells.tsv"), "resnet50-train-fp32-b128")
    made = tables.build("resnet50-train-fp32-b128", own)
    assert made.series == [
        *("OneFlow", "NGC MXNet", "NGC TensorFlow 1.x", "NGC PyTorch"),
        *("MXNet", "TensorFlow 2.x", "PyTorch", "PaddlePaddle"),
    ]
    last = made.rows[-1]
    assert last[0] == "4n8d"
    assert (last[2][0].value, last[2][0].ratio) == ("12411.97", "31.21")
    assert (last[2][1].value, last[2][1].ratio) == ("11331.93", "28.89")


def test_every_published_number_becomes_one_record_with_its_line(v1):
    lines = (PUBLISHED / "dlperf-v1-common.csv").read_text().splitlines()
    found = records.read_round(v1 / "runs", "imported-dlperf-v1")
    assert len(found) == len(lines) - 1
    for row in found:
        assert f",{row['value']:.2f}".rstrip("0") in lines[row["source_line"] - 1]
        assert row["kind"] == "imported"
        assert len(row["source_sha256"]) == 64


def test_a_published_median_has_no_interval_and_no_certificate(v1):
    for row in read_table(v1 / "cells.tsv"):
        assert row["n_ok"] == 1
        assert row["coverage"] is None
        assert row["median_low"] is None
        assert row["ratio_low"] is None
        assert row["certificate"] == "none"
        assert not flags.comparable(row)


def test_a_table_with_each_frameworks_own_batch_says_it(v1):
    own = tables.select(read_table(v1 / "cells.tsv"), "bert-train-amp-bmax-clip1")
    made = tables.build("bert-train-amp-bmax-clip1", own)
    assert made.title == "BERT-Base training, amp, batch max per device"
    assert "NGC TensorFlow 1.x, b96 [xla]" in made.series
    assert "NGC TensorFlow 1.x, b64" in made.series
    assert made.lines[0] == "imported, not measured here"
    assert "interval: none, as each value is one published number" in " ".join(made.lines)


def test_with_and_without_clip_never_stand_in_one_table(v1):
    for row in read_table(v1 / "cells.tsv"):
        if row["workload"] == "bert":
            assert row["table"].endswith(f"clip{row['clip']}")


def test_tables_figures_and_page_of_a_publication_are_made_from_data(v1, tmp_path):
    folder = shutil.copytree(v1, tmp_path / v1.name)
    lines = (v1 / "cells.tsv").read_text().splitlines(keepends=True)
    kept = [lines[0], *(line for line in lines if "resnet50-train-fp32-b128" in line)]
    (folder / "cells.tsv").write_text("".join(kept))  # one of its tables: figures take time
    assert main(["replay", "--round", str(folder), "--published", str(PUBLISHED)]) == 0
    page = (folder / "report.html").read_text()
    assert "Imported, not measured here" in page
    assert "<script" not in page
    names = {path.stem for path in (folder / "figures").glob("*.svg")}
    assert names == {f"resnet50-train-fp32-b128-{kind}" for kind in ("throughput", "scaling")}
    drawn = (folder / "figures/resnet50-train-fp32-b128-throughput.svg").read_text()
    assert "12411.97" in drawn
    assert "Imported, not measured here" in drawn


@pytest.mark.parametrize(
    "name",
    [
        *("dlperf-v1-summary", "dlperf-v1-wide-deep", "dlperf-v1-insightface", "dlperf-v1-gpt"),
        *("dlperf-v1-gpt-zero", "nvidia-electra"),
    ],
)
def test_no_number_of_a_publication_is_lost_or_taken_for_a_repetition(name, tmp_path):
    folder = imported(PUBLISHED / f"{name}.yaml", tmp_path / f"imported-{name}")
    file = next(iter(records.configs.load(folder / "config.yaml").files))
    with open(file) as stream:
        printed = [row for row in csv.DictReader(stream) if row["metric"] != "precision_speedup"]
    values = read_table(folder / "values.tsv")
    cells = read_table(folder / "measurements.tsv.gz")
    assert len(values) + len(cells) == len(printed)
    for grid in published_tables.grids(folder / "values.tsv"):
        for own in grid.values.values():
            assert len({row["repetition"] for row in own}) == len(own), grid.name


def test_what_is_no_throughput_has_a_table_with_out_of_memory_as_a_result(tmp_path):
    name = "dlperf-v1-wide-deep"
    folder = imported(PUBLISHED / f"{name}.yaml", tmp_path / f"imported-{name}")
    grid = next(g for g in published_tables.grids(folder / "values.tsv") if "8 GPUs" in g.title)
    text = tables.markdown(published_tables.table(grid, configs.load(folder / "config.yaml")))
    assert re.search(r"vocab size 51,200,000 +\| +13\.974 +\| +57\.106", text)
    assert re.search(r"vocab size 102,400,000 +\| +13\.846 +\| +out of memory", text)
    assert "lower is better" in text
    drawn = published_figures.draw(grid, "DLPerf")
    assert b"out of memory" in drawn["svg"]
    assert drawn["png"].startswith(b"\x89PNG")


def test_cases_that_a_publication_names_keep_its_tables_and_have_our_names_of_sizes(tmp_path):
    """None of them is the case that the others are over."""
    name = "dlperf-v1-gpt"
    folder = imported(PUBLISHED / f"{name}.yaml", tmp_path / f"imported-{name}")
    assert read_table(folder / "cells.tsv") == []
    split = next(
        row for row in read_table(folder / "values.tsv") if row["case"] == "2D_PP_2x8x2_512_2304x24"
    )
    assert (split["tensor_parallel"], split["pipeline_parallel"], split["accumulation"]) == (
        8,
        2,
        32,
    )
    assert (split["width"], split["layers"], split["heads"]) == (2304, 24, 24)
    assert (split["sequence_length"], split["batch_size"]) == (2048, 8)
    grid = next(g for g in published_tables.grids(folder / "values.tsv") if "Pipeline" in g.title)
    text = tables.markdown(published_tables.table(grid, configs.load(folder / "config.yaml")))
    assert "a case: parallelism, data x tensor x pipeline, global batch, width x layers" in text
    assert re.search(r"2D PP 2x8x2 512 2304x24 +\| +35\.62 +\| +31\.45", text)
    printed = [row for row in rows_of.read_all(PUBLISHED) if row.get("case")]
    assert not list(contradictions.contradictions(printed, [], tmp_path / "none.csv"))


def test_a_split_model_of_a_tidy_csv_is_a_cell(tmp_path):
    row = {"workload": "gpt", "unit": "sequences/s", "data": "", "batch_size": "8"}
    row |= {"precision": "amp", "devices_per_node": "4", "tensor_parallel": "4", "width": "1536"}
    folder = imported(tidy(tmp_path, row), tmp_path / "imported-mine")
    (cell,) = read_table(folder / "cells.tsv")
    assert (cell["tensor_parallel"], cell["width"], cell["layers"]) == (4, 1536, 12)
    made = tables.build(cell["table"], [cell])
    assert made.title.startswith("GPT training, amp")
    assert "a case" not in " ".join(made.lines)


def test_repetitions_of_a_tidy_csv_have_a_median_and_its_interval(tmp_path):
    speeds = ("391.53", "389.71", "389.66")
    rows = [{"repetition": str(n), "value": value} for n, value in enumerate(speeds, start=1)]
    rows += [{"devices_per_node": "8", "value": "3006.98"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    one, eight = read_table(folder / "cells.tsv")
    assert (one["median"], one["median_low"], one["median_high"]) == (*(389.71, 389.66, 391.53),)
    assert one["coverage"] == 0.75
    assert eight["ratio"] == pytest.approx(3006.98 / 389.71)
    assert eight["coverage"] is None
    assert one["table"] == "resnet50-train-fp32-b128"


def test_two_tables_of_one_implementation_stay_apart(tmp_path):
    first = [{"value": "428.05", "table": "L12: sweep"}]
    second = [{"value": "427.00", "table": "L40: sweep"}]
    first += [{**first[0], "devices_per_node": "8", "value": "3007.50"}]
    second += [{**second[0], "devices_per_node": "8", "value": "2999.90"}]
    folder = imported(tidy(tmp_path, *second, *first), tmp_path / "imported-mine")
    cells = read_table(folder / "cells.tsv")
    names = list(dict.fromkeys(row["table"] for row in cells))
    assert names == [f"resnet50-train-fp32-b128-{line}_sweep" for line in ("l40", "l12")]
    shown = [tables.build(name, tables.select(cells, name)) for name in names]
    of_one = [[(entry.value, entry.ratio) for _, _, (entry,) in made.rows] for made in shown]
    assert of_one == [
        [("427.00", "1.00"), ("2999.90", "7.03")],
        [("428.05", "1.00"), ("3007.50", "7.03")],
    ]
    assert cells[1]["ratio"] == 2999.90 / 427.00
    assert "published as: L40: sweep" in shown[0].lines


def test_implementations_of_one_framework_stay_apart(tmp_path):
    rows = [{}, {"implementation": "GluonCV", "value": "384.19"}, {"implementation": ""}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    cells = read_table(folder / "cells.tsv")
    assert [row["median"] for row in cells] == [391.53, 384.19, 391.53]
    made = tables.build("resnet50-train-fp32-b128", cells)
    assert made.series == ["NGC MXNet", "GluonCV", "MXNet"]


def test_a_speed_up_is_never_over_another_frameworks_device(tmp_path):
    """An empty label is that of every framework."""
    rows = [{}, {"devices_per_node": "2"}, {"devices_per_node": "2", "framework": "jax"}]
    rows = [{**row, "implementation": ""} for row in rows]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    cells = read_table(folder / "cells.tsv")
    assert [row["framework"] for row in cells] == ["mxnet", "mxnet", "jax"]
    assert [row["ratio"] for row in cells] == [1.0, 1.0, None]


def test_a_choice_of_a_workload_may_be_a_word(tmp_path):
    row = {"workload": "wide_deep", "unit": "samples/s", "data": "criteo", "batch_size": "512"}
    rows = [row, {**row, "adam": "dense", "value": "300"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    cells = read_table(folder / "cells.tsv")
    assert [(each["adam"], each["tables"]) for each in cells] == [
        ("lazy", "replicated"),
        ("dense", "replicated"),
    ]
    names = [each["table"] for each in cells]
    assert names == [f"wide_deep-train-fp32-b512-{adam}" for adam in ("adamlazy", "adamdense")]
    tables.build(names[1], tables.select(cells, names[1]))


def test_micro_steps_of_a_tidy_csv_are_those_of_its_cells(tmp_path):
    """Where the same devices have several, each has a table of its own, over its own device."""
    few, many = {"accumulation": "2", "value": "400"}, {"accumulation": "16", "value": "440"}
    two = {"devices_per_node": "2"}
    rows = [{**few, "value": "100"}, {**few, **two, "accumulation": "1", "value": "150"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    one = read_table(folder / "cells.tsv")
    assert [(row["accumulation"], row["ratio"]) for row in one] == [(2, 1.0), (1, 1.5)]
    assert {row["table"] for row in one} == {"resnet50-train-fp32-b128"}

    rows = [few, many, {**few, **two, "value": "600"}, {**many, **two, "value": "880"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    cells = read_table(folder / "cells.tsv")
    tables_of = [f"resnet50-train-fp32-b128-acc{count}" for count in (2, 16)]
    for devices, ratios in ((1, (1.0, 1.0)), (2, (1.5, 2.0))):
        own = [(each["table"], each["ratio"]) for each in cells if labels.devices(each) == devices]
        assert own == list(zip(tables_of, ratios, strict=True))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": "0"}, "line 2: nodes: '0' Input should be greater than or equal to 1"),
        ({"value": "fast"}, "line 2: value: 'fast'"),
        ({"value": "-3"}, "line 2: value: -3.0 is not above 0"),
        ({"value": ""}, "line 2: value: is empty, and `note` does not say why"),
        ({"framework": "NGC MXNet"}, "line 2: framework: 'NGC MXNet'"),
        (
            {"framework": "mxnett"},
            "line 2: framework: 'mxnett' is not known; did you mean 'mxnet'?",
        ),
        ({"workload": "resnet"}, "line 2: workload: 'resnet' is not known; did you mean"),
        ({"precision": "fp23"}, "line 2: precision: 'fp23' is not known; did you mean 'fp32'?"),
        ({"unit": "ms"}, "line 2: unit: 'ms' is not known [allowed: images/s], as resnet50 counts"),
        (
            {"comment": "warm"},
            "line 2: the column 'comment' is no dimension of resnet50 [allowed: ",
        ),
        ({"accumulation": "0"}, "line 2: accumulation: '0' is no whole number, 1 or more"),
        ({"zero_stage": "all"}, "line 2: zero_stage: 'all' is no whole number, 0 or more"),
        ({"image_size": "large"}, "line 2: image_size: 'large' is not a whole number"),
        ({"workload": "bert", "unit": "", "clip": "2"}, "line 2: clip: 2; allowed: 0, 1"),
        ({"source": ""}, "line 2: source: is missing"),
        ({"precision": ""}, "line 2: precision: is missing"),
    ],
)
def test_a_wrong_row_is_named_by_file_line_and_column(change, said, tmp_path, capsys):
    config = tidy(tmp_path, change)
    out = tmp_path / "imported-mine"
    assert main(["import", "--config", str(config), "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path}/mine.csv: {said}" in error
    assert "Traceback" not in error
    assert not out.exists()


def refused(config: Path, capsys) -> str:
    out = config.parent / "imported-mine"
    assert main(["import", "--config", str(config), "--out", str(out)]) == 1
    assert not out.exists()
    error: str = capsys.readouterr().err
    assert "Traceback" not in error
    return error


def test_a_wrong_name_is_said_once_however_many_rows_have_it(tmp_path, capsys):
    rows = [{"framework": "mxnett", "repetition": str(n)} for n in range(1, 2582)]
    lines = refused(tidy(tmp_path, *rows), capsys).splitlines()
    assert len([line for line in lines if "mxnett" in line]) == 1
    assert "mine.csv: line 2: framework: 'mxnett' is not known" in lines[0]
    assert "did you mean 'mxnet'?" in lines[0]
    assert "if it is meant, list it under `names`" in lines[0]
    assert "(2,581 such rows, the last is line 2582)" in lines[0]


def test_a_name_that_this_project_does_not_know_may_be_meant(tmp_path):
    config = tidy(tmp_path, {"workload": "vit", "precision": "fp6"})
    config.write_text(config.read_text() + "names: [vit, fp6]\n")
    folder = imported(config, tmp_path / "imported-mine")
    (row,) = read_table(folder / "values.tsv")
    assert (row["workload"], row["precision"]) == ("vit", "fp6")


def test_two_units_of_one_case_are_refused(tmp_path, capsys):
    rows = [
        {"metric": "latency", "unit": unit, "value": value, "repetition": str(n)}
        for n, (unit, value) in enumerate([("ms", "31.2"), ("s", "0.0313")], start=1)
    ]
    error = refused(tidy(tmp_path, *rows), capsys)
    assert "line 3: unit: 's', but line 2, of the same case and metric, has 'ms'" in error


def test_a_byte_order_mark_hides_no_column(tmp_path):
    config = tidy(tmp_path, {})
    path = tmp_path / "mine.csv"
    path.write_text("\ufeff" + path.read_text())
    folder = imported(config, tmp_path / "imported-mine")
    assert [row["framework"] for row in read_table(folder / "cells.tsv")] == ["mxnet"]


@pytest.mark.parametrize(
    ("column", "wrong", "said"),
    [
        ("clip", "perhaps", "clip: 'perhaps' is not known [allowed: yes, no]"),
        ("clip", "", "clip: '' is not known [allowed: yes, no]"),
        ("xla", "on", "xla: 'on' is not known [allowed: yes, no]"),
        ("mode", "training", "mode: 'training' is not known; did you mean 'train'?"),
        ("model", "BERT", "model: 'BERT' is not known"),
    ],
)
def test_a_wrong_word_in_a_published_table_is_named(column, wrong, said, tmp_path, capsys):
    with open(PUBLISHED / "dlperf-v1-common.csv") as stream:
        row = next(row for row in csv.DictReader(stream) if row["model"] == "BERT-base")
    config = tidy(tmp_path, {})
    with open(tmp_path / "mine.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, [*row, *({column} - row.keys())])
        writer.writeheader()
        writer.writerow({**row, column: wrong})
    assert f"mine.csv: line 2: {said}" in refused(config, capsys)


def test_the_same_repetition_twice_is_an_error(tmp_path, capsys):
    error = refused(tidy(tmp_path, {}, {"value": "389.71"}), capsys)
    assert "line 3: is of the same repetition, metric and estimator as line 2" in error
    assert "name the two sweeps of one report in the column `table`" in error


def test_a_compiler_that_is_not_said_is_shown_as_none_and_known_to_be_unsaid(tmp_path, capsys):
    rows = [{"repetition": "1"}, {"repetition": "2", "compiler": "none", "value": "389.71"}]
    rows += [{"devices_per_node": "8", "compiler": "none"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    measured = read_table(folder / "measurements.tsv.gz")
    assert [row["compiler"] for row in measured] == ["none"] * 3
    assert [row["unsaid"] for row in measured] == ["compiler image_size", *["image_size"] * 2]
    one, eight = read_table(folder / "cells.tsv")
    assert one["n_ok"] == 2 and one["case"].replace("1n1d", "1n8d") == eight["case"]
    made = tables.build(one["table"], [one, eight])
    assert made.series == ["NGC MXNet"]
    (tmp_path / "again").mkdir()
    error = refused(tidy(tmp_path / "again", {}, {"compiler": "none"}), capsys)
    assert "line 3: is of the same repetition, metric and estimator as line 2" in error


def test_the_published_estimate_stands_beside_the_wall_clock(tmp_path):
    rows = [{"estimator": "wall_clock"}, {"value": "389.71", "estimator": "mean_of_rates"}]
    folder = imported(tidy(tmp_path, *rows), tmp_path / "imported-mine")
    (cell,) = read_table(folder / "cells.tsv")
    assert (cell["median"], cell["n_ok"]) == (391.53, 1)
    (beside,) = read_table(folder / "values.tsv")
    assert (beside["metric"], beside["value"]) == ("throughput, mean of rates", "389.71")


def test_a_missing_column_is_named(tmp_path, capsys):
    (tmp_path / "mine.csv").write_text("framework,workload\nmxnet,resnet50\n")
    config = tmp_path / "mine.yaml"
    config.write_text(f"round: imported-mine\ntitle: M\nfiles: [{tmp_path}/mine.csv]\n")
    assert main(["import", "--config", str(config), "--out", str(tmp_path / "imported-mine")]) == 1
    assert "line 1: the column 'implementation' is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("round: dlperf\ntitle: x\nfiles: [a.csv]\n", "round: 'dlperf' is not 'imported-'"),
        ("round: imported-x\ntitle: x\nfiles: []\n", "files:"),
        ("round: imported-x\ntitle: x\nfiels: [a.csv]\n", "did you mean 'files'"),
        ("round: imported-x\ntitle: x\nfiles: [no.csv]\n", "no.csv: cannot be read"),
    ],
)
def test_a_wrong_config_of_an_import_is_told(text, said, tmp_path, capsys):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert main(["import", "--config", str(path), "--out", str(tmp_path / "imported-x")]) == 1
    assert said in capsys.readouterr().err


def test_a_folder_of_another_round_is_never_written_to(tmp_path, capsys):
    config = tidy(tmp_path, {})
    laptop = tmp_path / "laptop"
    (laptop / "runs").mkdir(parents=True)
    assert main(["import", "--config", str(config), "--out", str(laptop)]) == 1
    assert "is not the folder of the round 'imported-mine'" in capsys.readouterr().err
    assert (laptop / "runs").exists()


def test_a_measured_round_refuses_an_imported_record(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    record = next(results.glob("runs/**/rep1.json"))
    record.write_text(json.dumps({"schema": records.SCHEMA, "kind": "imported"}))
    assert main(merging(results)) == 1
    assert "is an imported record: it was not measured here" in capsys.readouterr().err


def test_no_measured_round_may_have_the_name_of_an_imported_one():
    for name in ("imported-dlperf-v1", "imported"):
        with pytest.raises(plan.ConfigError, match="round"):
            plan.load(config(frameworks=["pytorch"]) | {"round": name})


def test_every_printed_ratio_is_reproduced_or_listed(tmp_path):
    rows = speedups.read_all(PUBLISHED)
    found = speedups.ratios(rows)
    printed = [row for row in rows if row.get("speedup") or row["metric"] == "precision_speedup"]
    printed += [row for row in rows if row.get("memory_ratio")]
    derived = [row for row in rows if (row.get("note") or "").startswith("derived_speedup=")]
    ratios = [each for each in found if "FLOP/s" not in each.what]
    assert len(ratios) == len(printed) + len(derived) > 400
    listed = speedups.contradictions(rows, found, PUBLISHED / speedups.KNOWN)
    named = {place for each in listed for place in each["rows"].split()}
    for each in ratios:
        if each.status == "reproduced":
            assert abs(each.recomputed - each.published) <= each.tolerance + 1e-9
            assert each.tolerance == 0.01 or each.what.startswith("percent of HugeCTR's memory")
        else:
            assert rows_of.place(each.row) in named
    flops = [each for each in found if each.what.startswith("achieved")]
    assert len(flops) == 36
    assert {each.status for each in flops} == {"reproduced"}


def test_hugectr_counted_its_rows_on_each_gpu_as_its_memory_shows():
    rows = speedups.read_all(PUBLISHED)
    listed = speedups.contradictions(rows, speedups.ratios(rows), PUBLISHED / speedups.KNOWN)
    own = [each for each in listed if each["publication"] == "DLPerf v1.0, Wide & Deep"]
    eight, many = [each["finding"] for each in own if each["kind"] == "a-device"]
    assert "grows by 254 B a row on one of them, where weights and moments take 204" in eight
    assert "OneFlow's grows by 25.5, 204 in all" in eight
    assert "takes 19% of HugeCTR's memory as printed, at 51,200,000 rows" in eight
    assert eight.endswith("with equal rows, 409,600,000 in all, it takes 78%")
    assert "grows by 446 B a row" in many
    assert "takes 11% of HugeCTR's memory as printed, at 25,600,000 rows" in many
    assert many.endswith("with equal rows, 819,200,000 in all, it takes 84%")
    (optimisers,) = [each["finding"] for each in own if "lazy" in each["finding"]]
    assert "0.8 ns a row and GPU at width 16 and 1.6 ns at width 32" in optimisers
    latencies = [row for row in rows if row["metric"] == "latency_per_iter" and row["value"]]
    grows = {
        (row["implementation"], int(row["devices"])): contradictions.slope(
            {
                int(each["vocab_size"]): 1e6 * float(each["value"])
                for each in latencies
                if (each["table"], each["implementation"]) == (row["table"], row["implementation"])
            }
        )
        for row in latencies
    }
    hugectr = [grows["HugeCTR", devices] for devices in (1, 8, 32)]
    assert hugectr == pytest.approx([0.81, 0.85, 1.61], abs=0.01), "ns a row"
    assert all(abs(grows["OneFlow", devices]) < 0.002 for devices in (1, 8, 32))


def test_electras_pre_training_scales_over_one_device_of_its_own_table(tmp_path):
    folder = imported(PUBLISHED / "nvidia-electra.yaml", tmp_path / "imported-nvidia-electra")
    cells = read_table(folder / "cells.tsv")
    assert len(cells) == 28 and {row["scenario"] for row in cells} == {"train"}
    own = tables.select(cells, "electra-train-amp-b176-a100_40gb-seq128")
    assert [(row["accumulation"], row["compiler"]) for row in own] == [(384, "xla"), (48, "xla")]
    made = tables.build("amp", own)
    assert [(e.value, e.ratio) for _, _, (e,) in made.rows] == [
        ("955.00", "1.00"),
        ("7512.00", "7.87"),  # as it is printed
    ]
    assert "micro-steps an update: 384 on 1n1d, 48 on 1n8d" in made.lines
    assert "the rates of single micro-steps" in " ".join(made.lines)
    # the update of 8 devices is another one here: 211 micro-steps, and not 211.125
    fp32 = tables.select(cells, "electra-train-fp32-b40-v100_16gb-seq128")
    assert [row["accumulation"] for row in fp32] == [1689, 211]
    assert fp32[1]["ratio"] == 920 / 116


def test_electras_times_without_a_loss_follow_from_its_speeds():
    rows = speedups.read_all(PUBLISHED)
    listed = speedups.contradictions(rows, speedups.ratios(rows), PUBLISHED / speedups.KNOWN)
    own = [each for each in listed if each["publication"].startswith("NVIDIA, ELECTRA")]
    times = [each["finding"] for each in own if each["kind"] == "extrapolated"]
    assert len(times) == 6, "all of one node; those of 384 GPUs have a loss"
    off = sorted(float(re.search(r"are ([+-]\d\.\d\d) from", each)[1]) for each in times)
    assert (off[0], off[-1]) == (0.12, 0.22)
    (first,) = [each for each in times if each.startswith("54.84 hours")]
    assert "10,000 updates of 67,584 at the printed 4202/s" in first
    assert "933 updates of 27,648 at the printed 716/s take, 54.68" in first
    hours = (10_000 * 67_584 / 4202 + 933 * 27_648 / 716) / 3600
    assert f"{hours:.2f}" == "54.68"

    updates = [each["finding"] for each in own if each["kind"] == "update"]
    assert updates == [
        "67,560 sequences an update (40 x 1 x 1689), where others have 67,584",
        "67,520 sequences an update (40 x 8 x 211), where others have 67,584",
    ]

    work = [each["finding"] for each in own if each["kind"] == "work"]
    one = next(each for each in work if "317 sequences/s for 749 s" in each)
    assert "are 237,433 sequences" in one and one.endswith("177,000: 34% off")
    # one GPU without XLA is as long as its speed says
    assert not any(" 107 sequences/s" in each or " 35 sequences/s" in each for each in work)

    (mixed,) = [each["finding"] for each in own if "mix precision and compiler" in each["finding"]]
    printed: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["metric"] == "precision_speedup" and row["model"] == "ELECTRA-base":
            printed.setdefault((row["mode"], row["gpu"][:4]), []).append(
                f"{float(row['value']):.2f}"
            )
    assert len(printed) == 4
    for found in printed.values():
        assert f"{min(found)} to {max(found)}" in mixed


def publication(folder: Path, name: str, publisher: str, *rows: dict[str, str]) -> None:
    """A YAML file and a CSV in the published tables' own form."""
    with open(PUBLISHED / "dlperf-v1-common.csv") as stream:
        first = next(csv.DictReader(stream))
    with open(folder / f"{name}.csv", "w", newline="") as stream:
        writer = csv.DictWriter(
            stream, dict.fromkeys([*first, *(key for row in rows for key in row)])
        )
        writer.writeheader()
        writer.writerows({**first, "note": "", **row} for row in rows)
    said = f"publisher: {publisher}\n" if publisher else ""
    (folder / f"{name}.yaml").write_text(
        f"round: imported-{name}\ntitle: The {name}\nfiles: [{folder}/{name}.csv]\n{said}"
    )


def found(folder: Path, kind: str) -> list[dict[str, str]]:
    rows = speedups.read_all(folder)
    listed = speedups.contradictions(rows, speedups.ratios(rows), folder / "none.csv")
    return [each for each in listed if each["kind"] == kind]


ONE = {"nodes": "1", "gpus_per_node": "1", "devices": "1"}
EIGHT = {"nodes": "1", "gpus_per_node": "8", "devices": "8"}


def test_scaling_is_above_linear_only_over_one_device_of_its_own_table(tmp_path):
    rows = [
        {"table": "A, 16 GB", **ONE, "value": "100.0"},
        {"table": "A, 16 GB", **EIGHT, "value": "700.0"},
        {"table": "B, 32 GB", **EIGHT, "value": "1500.0"},  # its one device was not published
        {"table": "C, tuned", **ONE, "value": "200.0"},
        {"table": "C, tuned", **EIGHT, "value": "1610.0"},
    ]
    publication(tmp_path, "page", "", *rows)
    (only,) = found(tmp_path, "above-linear")
    assert only["finding"] == "8.05 times one device, on 8 devices"
    assert only["rows"] == f"{tmp_path}/page.csv:6"


def test_a_time_beside_a_loss_or_far_from_what_follows_is_no_extrapolation(tmp_path):
    one = {**ONE, "model": "ELECTRA-base", "mode": "pretrain", "gpu": "A", "precision": "amp"}
    one |= {"seq_len": "128", "unit": "sequences/s"}
    speeds = [
        {
            **{**one, "phase": phase, "seq_len": tokens, "value": value},
            **{"bsz_per_device": "8", "accumulation_steps": "4"},
        }
        for phase, tokens, value in (("1", "128", "100"), ("2", "512", "20"))
    ]
    hours = (10_000 / 100 + 933 / 20) * 32 / 3600
    time = {**one, "metric": "time_to_train", "unit": "hours", "bsz_per_device": "8|8"}
    loss = {**one, "metric": "final_loss", "unit": "", "value": "8.7"}
    for name, rows, count in (
        ("follows", [*speeds, {**time, "value": f"{1.005 * hours:.3f}"}], 1),
        ("longer", [*speeds, {**time, "value": f"{1.02 * hours:.3f}"}], 0),
        ("with-a-loss", [*speeds, loss, {**time, "value": f"{1.005 * hours:.3f}"}], 0),
        ("one-phase", [speeds[0], {**time, "value": f"{1.005 * hours:.3f}"}], 0),
        ("minutes", [*speeds, {**time, "unit": "min", "value": f"{60.3 * hours:.3f}"}], 1),
        ("not-printed", [*speeds, {**time, "value": "", "note": "not reported"}], 0),
        ("unknown-unit", [*speeds, {**time, "unit": "", "value": f"{1.005 * hours:.3f}"}], 0),
        (
            "unknown-update",
            [
                *({**row, "accumulation_steps": ""} for row in speeds),
                {**time, "value": f"{1.005 * hours:.3f}"},
            ],
            0,
        ),
    ):
        folder = tmp_path / name
        folder.mkdir()
        publication(folder, "page", "", *rows)
        assert len(found(folder, "extrapolated")) == count, name


def test_a_fine_tuning_is_held_against_its_speed_whatever_the_unit_of_its_time(tmp_path):
    one = {**ONE, "model": "ELECTRA-base", "gpu": "A", "precision": "amp", "bsz_per_device": "32"}
    one |= {"seq_len": "384", "dataset": "SQuAD v1.1"}
    speed = {**one, "mode": "finetune", "value": "177"}
    time = {**one, "mode": "finetune_accuracy", "metric": "time_to_train"}
    for name, unit, value, count in (
        ("seconds", "s", "1000", 0),
        ("longer", "s", "1200", 1),
        ("hours", "hours", "0.278", 0),
        ("not-printed", "s", "", 0),
    ):
        folder = tmp_path / name
        folder.mkdir()
        note = "" if value else "not reported"
        publication(folder, "page", "", speed, {**time, "unit": unit, "value": value, "note": note})
        assert len(found(folder, "work")) == count, name


@pytest.mark.parametrize(("publishers", "count"), [(("Us", "Us"), 1), (("Us", "Them"), 0)])
def test_one_cell_with_two_values_is_a_contradiction_of_one_publisher(publishers, count, tmp_path):
    for name, publisher, value in zip(
        ("page", "report"), publishers, ("100.0", "101.0"), strict=True
    ):
        publication(tmp_path, name, publisher, {**ONE, "value": value})
    assert len(found(tmp_path, "two-values")) == count


def test_only_ratios_that_were_printed_count_as_printed():
    rows = speedups.read_all(PUBLISHED)
    ratios = speedups.ratios(rows)
    said = speedups.summary(ratios, [])
    assert said.startswith(
        "275 of 471 printed ratios are reproduced, 10 contradict their own table, 186 have no"
    )
    derived = [each for each in ratios if not each.printed]
    assert len(derived) == 168
    assert speedups.summary(derived, []) == ""


def test_known_contradictions_of_the_publications_are_found(tmp_path):
    assert main(["speedups", "--published", str(PUBLISHED), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "contradictions.md").read_text()
    for said in (
        "11331.93",  # NGC MXNet, and beside it
        "11233.92",
        "printed as 10.2; 10.28 follows",
        "printed as 27.33; 27.23 follows",
        "printed as 2.18; 3.23 follows",
        "standard deviations as fractions",
        "mean latency 6.035 ms above the 99th percentile",
        "5136, 1378 stand in L43",
        "Times to train that follow from printed speeds",
        "was run without mixed precision",
        "were not clipped",
    ):
        assert said in text
    ratios = read_table(tmp_path / "speedups.tsv")
    wrong = [row for row in ratios if row["status"] == "contradicts"]
    assert "config/published/nvidia-mxnet-resnet50.csv:48" in {
        f"{row['file']}:{row['line']}" for row in wrong
    }


def test_published_tables_stand_beside_a_measured_round_and_in_nothing_else(v1, tmp_path):
    results = write_round(tmp_path, SMALL | {"beside": ["dlperf-v1"]})
    (results.parent / "imported-dlperf-v1").symlink_to(v1)
    analyse(results)
    out = results / "report.html"
    given = ["--config", str(results / "config.yaml"), "--round", str(results)]
    assert main(holding_against(results)) == 0
    assert main(["report", *given, "--shared", str(results.parent), "--out", str(out)]) == 0
    before, _, section = out.read_text().partition('<section aria-labelledby="beside">')
    section, _, after = section.partition("</section>")
    assert "Beside figures of others" in section
    assert "12411.97" in section
    assert "batch 128 per device" in section
    assert "training, amp" not in section  # of another precision than was measured
    assert "12411.97" not in before + after
    assert not any("kind" in row for row in read_table(results / "cells.tsv"))


def test_published_latencies_stand_beside_an_inference_with_what_they_really_are(tmp_path):
    own = {"resnet50_scenarios": ["infer"], "resnet50_precisions": ["amp"]}
    mapping = config(frameworks=["mxnet"], topologies=["1n1d"], repetitions=2, **own)
    results = write_round(tmp_path, mapping | {"beside": ["nvidia-mxnet-resnet50"]})
    name = "imported-nvidia-mxnet-resnet50"
    imported(PUBLISHED / "nvidia-mxnet-resnet50.yaml", results.parent / name)
    analyse(results)
    out = results / "report.html"
    given = ["--config", str(results / "config.yaml"), "--round", str(results)]
    assert main(holding_against(results)) == 0
    assert main(["report", *given, "--shared", str(results.parent), "--out", str(out)]) == 0
    before, _, section = out.read_text().partition('<section aria-labelledby="beside">')
    section, _, after = section.partition("</section>")
    assert "ResNet-50 v1.5, latency: inference" in section and "NGC MXNet, p95" in section
    assert "pipelined loop" in section  # no latency of one batch
    assert "0.84" in section and "1431.99" in section
    assert "memory" not in section and "training" not in section
    assert "1431.99" not in before + after
    cells = [row | {"precision": "fp32"} for row in read_table(results / "cells.tsv")]
    made = plan.load(results / "config.yaml")
    (other,) = published.beside(made, cells, results, results.parent)
    assert other.tables == []  # all are of another precision


def test_a_percentile_that_is_none_is_said_to_be_none(tmp_path):
    folder = imported(PUBLISHED / "nvidia-electra.yaml", tmp_path / "imported-nvidia-electra")
    publication = configs.load(folder / "config.yaml")
    for grid in published_tables.grids(folder / "values.tsv"):
        said = tables.markdown(published_tables.table(grid, publication))
        assert ("the mean of the fastest" in said) == (grid.row["metric"] == "latency")


def test_a_round_beside_that_was_not_imported_is_told(tmp_path, capsys):
    results = write_round(tmp_path, SMALL | {"beside": ["nobody"]})
    analyse(results)
    assert main(holding_against(results)) == 1
    assert "`beside` names 'nobody'" in capsys.readouterr().err


def test_workloads_that_are_here_take_their_dimensions_from_their_facts(v1):
    for row in read_table(v1 / "cells.tsv"):
        for name in workloads.of(row["workload"]).dimensions:
            assert row[name] is not None
