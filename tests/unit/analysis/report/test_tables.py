"""Tables, figures and their names: everything asked for is shown, and said in words."""

import csv
import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from analysed_round import NAME, SMALL, analyse, mxnet_fails, write_figure, write_table
from generated_round import config, stretch, write_round
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.report import summary
from dlperf.analysis.report.drawing import spread
from dlperf.analysis.report.tables import build, markdown
from dlperf.analysis.round import labels, metrics, names
from dlperf.analysis.schema.files import read_table

DATA = ["sample", "synthetic"]


def cases(mapping: dict) -> list[plan.Case]:
    return plan.expand(plan.load(mapping))


def test_names_follow_from_the_plan():
    assert names.table_ids(cases(SMALL)) == [NAME]
    assert names.figure_ids(cases(SMALL)) == [f"{NAME}-throughput", f"{NAME}-scaling"]
    one = config(frameworks=["pytorch"], topologies=["1n1d"])
    assert names.figure_ids(cases(one)) == [f"{NAME}-throughput"]


def test_names_spell_data_only_where_it_varies():
    both = config(frameworks=["pytorch"], resnet50_data=["sample", "synthetic"])
    assert names.table_ids(cases(both)) == [f"{NAME}-sample", f"{NAME}-synthetic"]


def with_bert(**changes) -> dict:
    bert = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [2]},
        "data": ["sample"],
        "sequence_length": 64,
        "steps": {"warmup": 1, "measured": 4},
        **changes,
    }
    return config(workloads={"bert": bert}, frameworks=["pytorch", "jax"])


def test_all_tables_of_a_round_stand_in_one_file_for_a_readme(tmp_path):
    mapping = config(frameworks=["pytorch", "jax"], resnet50_data=DATA, repetitions=4)
    results = write_round(tmp_path, mapping)
    analyse(results)
    paths = {"cells": results / "cells.tsv", "measurements": results / "measurements.tsv.gz"}
    out = results / "tables.md"
    options = [text for name, path in paths.items() for text in (f"--{name}", str(path))]
    assert main(["markdown", *options, "--out", str(out)]) == 0
    text = out.read_text()
    for kind in DATA:
        assert write_table(results, f"{NAME}-{kind}")["md"] in text
    assert "### What won where" in text
    assert text.count("| PyTorch | ") == 4 and text.count("| all others | ") == 4
    lines = [line for line in text.split("###")[1].splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1


LAYOUTS = [{}, {"accumulation": 2}, {"data_parallel": 2, "accumulation": 8}]


def test_layouts_stand_beside_each_other_in_one_table(tmp_path):
    mapping = with_bert(layouts=LAYOUTS)
    table = "bert-train-fp32-b2"
    assert names.table_ids(cases(mapping)) == [table]
    drawn = [f"{table}-throughput", f"{table}-scaling", f"{table}-layouts"]
    assert names.figure_ids(cases(mapping)) == drawn
    results = write_round(tmp_path, {**mapping, "repetitions": 4})
    analyse(results)
    text = write_table(results, table)["md"]
    assert "BERT-Base training, fp32, batch 2 per device\n" in text
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| 1n")]
    assert rows == [
        "1n1d",
        "1n1d, accumulation 2",
        "1n2d",
        "1n2d, accumulation 2",
        "1n2d, accumulation 8",
    ]
    # ranked by row: other layouts are other updates
    ranking = [line for line in text.splitlines() if line.startswith("- 1n")]
    assert [line.partition(": ")[0].removeprefix("- ") for line in ranking] == rows
    assert all(line.count("PyTorch") == line.count("JAX") == 1 for line in ranking)
    bars, curves, layouts = (write_figure(results, name)[0] for name in drawn)
    assert "1 node × 2 devices, accumulation 8" in bars
    assert "PyTorch [inductor]" not in curves and "PyTorch, accumulation 2" in curves
    # other layouts are other updates: their batch is said where it differs
    for named in ("PyTorch, data parallel, batch 4", "JAX [xla], accumulation 8, batch 32"):
        assert named in layouts
    assert layouts.count(", step time<") == layouts.count(", peak memory per device<") == 2


def test_layouts_are_drawn_where_a_topology_has_several(tmp_path):
    split = {"layouts": [{}, {"tensor_parallel": 2}], "global_batch_sizes": {"fp32": [8]}}
    one = {**with_gpt(**split), "topologies": ["1n2d"]}
    drawn = [name for name in names.figure_ids(cases(one)) if name.endswith("-layouts")]
    # a batch of all devices makes a table with one topology, too: of a batch per device, two
    assert drawn == ["gpt-train-fp32-b4-layouts", "gpt-train-fp32-total8-layouts"]
    results = write_round(tmp_path, {**one, "repetitions": 4})
    analyse(results)
    drawn = write_figure(results, "gpt-train-fp32-total8-layouts")[0]
    assert "JAX [xla], tp2" in drawn and ", batch " not in drawn.partition("</title>")[2]
    apart = {**with_gpt(layouts=[{}, {"zero_stage": 1}]), "frameworks": ["jax"]}
    assert not [each for each in names.figure_ids(cases(apart)) if each.endswith("-layouts")]


def test_a_layout_that_is_its_own_base_has_no_scaling_efficiency(tmp_path):
    """Two devices that share one replica have nothing to be compared with."""
    split = {"layouts": [{"tensor_parallel": 2}], "topologies": ["1n2d"]}
    asked = with_gpt(also=[{"frameworks": ["pytorch", "jax"], **split}])
    asked |= {"topologies": ["1n1d", "1n2d"], "frameworks": ["pytorch", "jax", "mxnet"]}
    results = write_round(tmp_path, {**asked, "repetitions": 4})
    rows = [row for row in analyse(results) if row["table"] == "gpt-train-fp32-b4"]
    found = summary.standings(rows, read_table(results / "measurements.tsv.gz"))
    scaled = {labels.short_place(each.best): each.efficiency is not None for each in found}
    assert scaled == {"1n1d": False, "1n2d": True, "1n2d, tp2": False}
    bars = write_figure(results, "gpt-train-fp32-b4-throughput")[0]
    # in the second line of panels, those that have a bar there
    assert (bars.count(">PyTorch<"), bars.count(">MXNet [static]<")) == (2, 1)


def test_no_title_of_layouts_is_cut_however_long_their_names_are(tmp_path):
    layouts = [{}, {"data_parallel": 1, "pipeline_parallel": 2, "accumulation": 4}]
    mapping = {**with_gpt(layouts=layouts), "frameworks": ["pytorch", "paddlepaddle"]}
    results = write_round(tmp_path, {**mapping, "repetitions": 4, "topologies": ["1n2d"]})
    analyse(results)
    _, png = write_figure(results, "gpt-train-fp32-b4-layouts")
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("L"))
    assert pixels.max() == 255 and (pixels[:, -3:] == 255).all()


def with_gpt(**changes) -> dict:
    gpt = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [4]},
        "data": ["sample"],
        "width": 128,
        "layers": 2,
        "heads": 4,
        "sequence_length": 64,
        **changes,
    }
    return config(workloads={"gpt": gpt}, frameworks=["pytorch", "jax"])


def test_a_table_of_pipelines_says_what_they_leave_unused(tmp_path):
    mapping = with_gpt(layouts=[{}, {"pipeline_parallel": 2, "accumulation": 4}])
    results = write_round(tmp_path, {**mapping, "repetitions": 4})
    rows = analyse(results)
    found = {
        (row["framework"], row["pipeline_parallel"]): row
        for row in rows
        if row["devices_per_node"] == row["pipeline_parallel"]
    }
    piped, alone = found["pytorch", 2], found["pytorch", 1]
    assert piped["bubble"] == pytest.approx(1 / 5) and alone["bubble"] is alone["idle"] is None
    assert piped["idle"] == pytest.approx(1 - piped["median"] / alone["median"] / 2)
    assert piped["idle_low"] < piped["idle"] < piped["idle_high"]
    text = write_table(results, "gpt-train-fp32-b4")["md"]
    assert "- 1n2d, pp2, accumulation 4: bubble 20 %; idle: PyTorch " in text
    # without the same layout on one stage's devices there is nothing to measure it by
    lonely = {**mapping, "topologies": ["1n2d"], "round": "lonely"}
    results = write_round(tmp_path, lonely)
    assert {row["idle"] for row in analyse(results)} == {None}
    text = write_table(results, "gpt-train-fp32-b4")["md"]
    assert "- 1n2d, pp2, accumulation 4: bubble 20 %\n" in text


def test_arithmetic_with_what_is_computed_again_is_a_metric_of_its_own(tmp_path):
    mapping = with_gpt(layouts=[{}, {"activation_checkpointing": True}])
    results = write_round(tmp_path, {**mapping, "frameworks": ["pytorch"]})
    analyse(results)
    rows = read_table(results / "cells.tsv")
    model, hardware = (metrics.select(rows, name) for name in ("tflops", "hardware_tflops"))
    for one, other in zip(model, hardware, strict=True):
        if not one["activation_checkpointing"]:
            assert other["status"] == "missing" and other["median"] is None
            continue
        # 2 layers of 24 s h^2 (1 + s / 6h), the head's 2 s h V only three times
        layers, head = 2 * 24 * 64 * 128**2 * (1 + 64 / (6 * 128)), 2 * 64 * 128 * 51200
        ratio = (4 * layers + 3 * head) / (3 * layers + 3 * head)
        assert other["median"] / one["median"] == pytest.approx(ratio)


@pytest.mark.parametrize("layouts", [[{}], [{}, {"tensor_parallel": 2}]])
def test_a_table_of_split_models_says_whose_batch_it_is(tmp_path, layouts):
    results = write_round(tmp_path, with_bert(layouts=layouts))
    analyse(results)
    text = write_table(results, "bert-train-fp32-b2")["md"]
    assert ("the batch is that of a replica" in text) is (len(layouts) > 1)


def test_speed_ups_are_over_the_same_layout(tmp_path):
    results = write_round(tmp_path, with_bert(layouts=LAYOUTS))
    rows = analyse(results)
    ratios = {
        (row["nodes"] * row["devices_per_node"], row["accumulation"]): row["ratio"]
        for row in rows
        if row["framework"] == "pytorch" and metrics.is_own(row)
    }
    assert ratios[1, 1] == ratios[1, 2] == 1 and min(ratios[2, 1], ratios[2, 2]) > 1.5
    assert ratios[2, 8] is None  # one device has no such layout


@pytest.mark.parametrize(
    "layout, text",
    [
        ({}, "1n8d"),
        ({"tensor_parallel": 2, "pipeline_parallel": 2}, "1n8d, tp2 pp2"),
        (
            {"zero_stage": 1, "activation_checkpointing": True},
            "1n8d, zero1, activation checkpointing",
        ),
        ({"tensor_parallel": 8, "accumulation": 1024}, "1n8d, tp8, accumulation 1,024"),
    ],
)
def test_a_row_spells_its_layout(layout, text):
    mapping = {**with_bert(layouts=[layout]), "topologies": ["1n8d"]}
    (row, *_) = (case.columns("mine", 1) for case in cases(mapping))
    assert labels.short_place(row) == text
    assert labels.place(row) == text.replace("1n8d", "1 node × 8 devices")


def test_with_and_without_clip_never_stand_in_one_table(tmp_path):
    both = with_bert(clip=[True, False])
    tables = ["bert-train-fp32-b2-clip1", "bert-train-fp32-b2-clip0"]
    assert names.table_ids(cases(both)) == tables
    results = write_round(tmp_path, both)
    analyse(results)
    clipped, free = (write_table(results, name)["md"] for name in tables)
    assert "gradients clipped to a global norm of 1.0" in clipped
    assert "gradients not clipped" in free
    for text in (clipped, free):
        assert "sequences/s" in text and "English prose" in text
        assert "sequence length 64 — reduced from the standard 128" in text
        assert "4 steps after 1 of warm-up" in text
    svg, _ = write_figure(results, f"{tables[1]}-throughput")
    assert "gradients not clipped" in svg


def test_a_variant_is_certified_by_itself():
    paths = {case.certificate("cpu") for case in cases(with_bert(clip=[True, False]))}
    assert "certificates/bert/pytorch/cpu-fp32-clip0-1.json" in paths
    assert "certificates/bert/pytorch/cpu-fp32-1.json" in paths
    assert len(paths) == 2 * 2 * 2


def test_a_table_a_precision_and_batch_size():
    mapping = config(
        frameworks=["pytorch"],
        resnet50_precisions=["fp32", "amp"],
        resnet50_batch_sizes={"fp32": [8], "amp": [8, 16]},
    )
    found = names.table_ids(cases(mapping))
    measured = [NAME, "resnet50-train-amp-b8", "resnet50-train-amp-b16"]
    assert found == [*measured, "resnet50-train-amp-over-fp32-b8"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(LookupError, match=f"did you mean '{NAME}-scaling'"):
        names.known(f"{NAME}-scalin", names.figure_ids(cases(SMALL)), "figure")


def test_a_table_has_a_row_for_each_topology_and_a_column_for_each_series(tmp_path):
    rows = analyse(write_round(tmp_path, SMALL))
    table = build(NAME, rows)
    assert [short for short, _, _ in table.rows] == ["1n1d", "1n2d"]
    assert len(table.series) == 2 and table.series[0] == "PyTorch"
    said = " ".join(table.lines)
    for fact in (
        "images/s",
        "64×64 px images — reduced from the standard 224×224",
        "coverage 75 %",
    ):
        assert fact in said
    for _, _, entries in table.rows:
        for entry in entries:
            assert re.fullmatch(r"\d+\.\d\d", entry.value)


def test_the_forms_of_a_table_show_the_same_numbers(tmp_path):
    results = write_round(tmp_path, SMALL)
    rows = analyse(results)
    forms = write_table(results)
    for row in rows:
        shown = f"{row['median']:.2f}"
        assert f"{shown} ({row['ratio']:.2f})" in forms["md"]
        assert f">{shown}</span>" in forms["html"]
    tidy = list(csv.DictReader(forms["tsv"].splitlines(), delimiter="\t"))
    assert [float(each["median"]) for each in tidy] == [row["median"] for row in rows]


def test_failures_are_spelled_out_with_a_note(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    rows = analyse(results)
    table = build(NAME, rows)
    (_, _, one), (_, _, two) = table.rows
    assert (two[1].value, two[1].ok) == ("out of memory", False)
    assert one[1].repetitions == "2/3"
    assert table.notes[two[1].notes[0] - 1] == "out of memory: rank 0: no memory left"
    assert "2 of 3 repetitions (1 out of memory" in table.notes[one[1].notes[0] - 1]
    assert "out of memory [2]" in markdown(table)


def test_ranks_stand_below_a_table_with_the_chance_that_they_err(tmp_path):
    results = write_round(tmp_path, {**SMALL, "repetitions": 4})
    analyse(results)
    forms = write_table(results)
    for text in forms["md"], forms["html"]:
        assert re.search(r"1n1d: 1 PyTorch, 2 MXNet \[static\](\n|</li>)", text)
        assert "Ranks, shared where cells are not significantly different" in text
        assert "would still be found with a probability of 5 %" in text


def test_a_table_of_three_repetitions_says_how_many_it_takes(tmp_path):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    said = (
        "1–2 PyTorch, 1–2 MXNet [static]; no significant difference can be shown with fewer than 4"
    )
    assert said in write_table(results)["md"]


def test_an_outlier_has_a_note(tmp_path):
    def change(record):
        if record["identity"]["framework"] == "mxnet" and record["identity"]["repetition"] == 2:
            stretch(record, 1.5)

    results = write_round(tmp_path, {**SMALL, "repetitions": 5}, change=change)
    analyse(results)
    assert "1 of 5 repetitions is far from the others; it is kept" in write_table(results)["md"]


def test_a_reason_cannot_break_a_table(tmp_path):
    bad = "<script>alert(1)</script> | a\tb\nc"
    results = write_round(tmp_path, SMALL, fate=lambda case, repetition: ("crashed", bad))
    analyse(results)
    forms = write_table(results)
    assert "<script>" not in forms["html"] and "<script>" not in forms["md"]
    assert len(forms["tsv"].splitlines()) == 5
    HTMLParser().feed(forms["html"])


def test_a_figure_that_is_not_there_is_one_message(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    options = ["--cells", str(results / "cells.tsv"), "--svg", "a.svg", "--png", "a.png"]
    assert main(["figure", *options, "--figure", f"{NAME}-scaling2"]) == 1
    assert f"did you mean '{NAME}-scaling'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["throughput", "scaling", "memory"])
def test_a_figure_as_pdf_has_its_fonts_in_it_and_the_same_bytes_every_day(
    tmp_path, monkeypatch, kind
):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    figure = ["figure", "--cells", str(results / "cells.tsv"), "--figure", f"{NAME}-{kind}"]
    drawn = []
    for day in ("1", "2"):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", f"{day}000000000")  # of a font's and a file's date
        pdf, beside = tmp_path / f"{day}.pdf", ["--svg", str(tmp_path / f"{day}.svg")]
        assert main([*figure, "--pdf", str(pdf), *(beside if day == "2" else [])]) == 0
        drawn.append(pdf.read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"%PDF-") and b"/Title (ResNet-50 v1.5 training" in drawn[0]
    assert b"/FontFile2" in drawn[0] and b"/Type3" not in drawn[0]  # TrueType, all of it
    for word in (b"CreationDate", b"ModDate", str(tmp_path).encode()):
        assert word not in drawn[0]


def test_a_figure_without_a_file_to_draw_it_into_is_one_message(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    cells = ["--cells", str(results / "cells.tsv")]
    assert main(["figure", *cells, "--figure", f"{NAME}-scaling"]) == 1
    said = capsys.readouterr().err
    assert "--svg, --pdf, --png" in said and "Traceback" not in said


@pytest.mark.parametrize("kind", ["throughput", "scaling"])
@pytest.mark.parametrize("fate", ["ok", "some fail", "all fail"])
def test_figures_are_drawn_whatever_happened(tmp_path, kind, fate):
    fates = {
        "ok": lambda case, repetition: ("ok", ""),
        "some fail": mxnet_fails,
        "all fail": lambda case, repetition: ("crashed", "no library"),
    }
    results = write_round(tmp_path, SMALL, fate=fates[fate])
    analyse(results)
    svg, png = write_figure(results, f"{NAME}-{kind}")
    assert png.startswith(b"\x89PNG")
    root = ET.fromstring(svg)
    said = " ".join(
        "".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")
    )
    assert "ResNet-50 v1.5 training" in said
    assert "64 px (standard: 224)" in said
    if fate != "all fail":
        assert "images/s" in said and "PyTorch" in said
    elif kind == "scaling":
        assert "nothing measured" in said
    assert (svg, png) == write_figure(results, f"{NAME}-{kind}"), "the same cells, the same bytes"


def test_bars_show_their_value_and_how_many_repetitions_it_has(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    rows = analyse(results)
    svg, _ = write_figure(results, f"{NAME}-throughput")
    for row in rows:
        if row["status"] == "ok":
            some = "  (2/3)" if row["n_ok"] == 2 else ""
            assert f"{row['median']:.2f}{some}" in svg
    assert "out of memory" in svg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.01, 0.08))
def test_names_beside_a_curve_never_overlap(places, step):
    ordered = sorted(places)
    found = spread(ordered, step)
    assert len(found) == len(ordered)
    assert all(
        after - before >= step - 1e-9 for before, after in zip(found, found[1:], strict=False)
    )
    assert found[0] >= -1e-9 and found[-1] <= 1 + 1e-9
