"""Figures of others beside a round: who belongs together, every verdict, every reason, and what
must never be called reproduced."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from analysed_round import Page, analyse
from analysis_steps import drawing_beside, everything, holding_against, reporting
from conftest import ROOT
from generated_round import config, stretch, write_round
from published_round import copy_beside, held_against, imported, publish

from dlperf.analysis.__main__ import main
from dlperf.analysis.compare.reasons import same_card
from dlperf.analysis.publications.values import read
from dlperf.analysis.round import names, verdicts
from dlperf.analysis.schema.files import Row, read_table, write_table

FRAMEWORKS = ["pytorch", "mxnet"]
ON_GPU = {"device": "cuda", "frameworks": FRAMEWORKS, "repetitions": 7}
ON_GPU |= {"resnet50_compilers": ["off"]}
#: What a publication says of the cells of such a round.
PUBLISHED = {
    **{"workload": "resnet50", "precision": "fp32", "nodes": 1, "batch_size": 8, "data": "sample"},
    **{"metric": "throughput", "unit": "images/s", "estimator": "median of 7 runs"},
    **{"source": "a page", "image_size": 64, "hardware": "Example GPU"},
}


def made(root: Path, **changes: Any) -> Path:
    """An analysed round on a made-up card, with the publication `mine` beside it."""
    options = {key: changes.pop(key) for key in ("change", "fate", "verdict") if key in changes}
    results = write_round(root, config(**{**ON_GPU, "beside": ["mine"], **changes}), **options)
    analyse(results)
    return results


def figure(results: Path, framework: str = "pytorch", devices: int = 1, by: float = 1, **changes):
    """A row of a publication: what this cell has, times `by`."""
    (cell,) = [
        row
        for row in read_table(results / "cells.tsv")
        if (row["framework"], row["devices_per_node"]) == (framework, devices)
        and row["metric"] == "throughput"
        and not row["over"]
    ]
    own = {"framework": framework, "devices_per_node": devices, "value": (cell["median"] or 1) * by}
    return {**PUBLISHED, **own, **changes}


@pytest.fixture(scope="module")
def steady(tmp_path_factory) -> Path:
    """A round whose repetitions scatter by 1 %."""
    return made(tmp_path_factory.mktemp("steady"))


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        *((1, "reproduced"), (1.02, "reproduced"), (0.98, "reproduced")),
        *((0.8, "faster"), (1.25, "slower")),
        *((1 / 0.95, "not reproduced"), (1 / 1.05, "not reproduced")),
    ],
)
def test_a_published_cell_has_a_verdict(steady, by, verdict):
    (row,) = held_against(steady, figure(steady, by=by))
    assert row["verdict"] == verdict
    assert row["reason"] == ""
    assert row["ratio"] == pytest.approx(1 / by)
    assert row["ratio_low"] < row["ratio"] < row["ratio_high"]
    assert row["margin"] == 0.05 and row["n_ok"] == 7 and row["baseline_n_ok"] == 1


def test_a_noisy_cell_is_undecided(tmp_path):
    def noisy(record) -> None:
        stretch(record, 1 + 0.08 * (record["identity"]["repetition"] % 4))

    results = made(tmp_path, change=noisy)
    (row,) = held_against(results, figure(results))
    assert row["verdict"] == "undecided"
    assert row["ratio_low"] < 0.95 and row["ratio_high"] > 1.05


def test_the_margin_is_the_configs(tmp_path):
    results = made(tmp_path, beside_margin=0.3)
    (row,) = held_against(results, figure(results, by=1.2))
    assert (row["verdict"], row["margin"]) == ("reproduced", 0.3)


def test_published_repetitions_are_repetitions(steady):
    ratios = (0.98, 0.99, 1.0, 1.01, 1.02)
    rows = [figure(steady, by=by, repetition=n) for n, by in enumerate(ratios, 1)]
    (row,) = held_against(steady, *rows)
    assert (row["verdict"], row["baseline_n_ok"]) == ("reproduced", 5)
    (alone,) = held_against(steady, figure(steady))
    assert row["ratio_high"] - row["ratio_low"] > alone["ratio_high"] - alone["ratio_low"]


def test_all_cells_of_a_publication_share_one_error_rate(steady):
    rows = [figure(steady, f, d) for f in FRAMEWORKS for d in (1, 2)]
    four = held_against(steady, *rows)
    assert [row["verdict"] for row in four] == ["reproduced"] * 4
    (one,) = held_against(steady, rows[0])
    assert four[0]["p"] == one["p"] and four[0]["p_corrected"] > one["p_corrected"]


def test_a_graph_that_a_publication_does_not_name_is_said_and_no_reason(tmp_path):
    """Programs in MXNet ran as its graph long before anybody wrote that beside a figure."""
    results = made(tmp_path, resnet50_compilers=["default", "off"])
    cells = [
        row
        for row in read_table(results / "cells.tsv")
        if row["framework"] == "mxnet" and row["metric"] == "throughput" and not row["over"]
    ]
    assert {row["compiler"] for row in cells} == {"static", "none"}
    value = next(row["median"] for row in cells if row["compiler"] == "static")
    theirs = {**PUBLISHED, "framework": "mxnet", "devices_per_node": 1, "value": value}
    (row,) = held_against(results, theirs)
    assert (row["verdict"], row["compiler"]) == ("reproduced", "static")
    assert "compiler: static here, none named there" in row["differs"]
    (row,) = held_against(results, {**theirs, "compiler": "xla"})
    assert row["verdict"] == "not testable" and "another compiler" in row["reason"]
    # no compiler is a statement too, in all repetitions or in one
    imperative = next(row["median"] for row in cells if row["compiler"] == "none")
    (row,) = held_against(results, {**theirs, "compiler": "none", "value": imperative})
    assert (row["verdict"], row["compiler"], row["unsaid"]) == ("reproduced", "none", "")
    assert "compiler" not in row["differs"]
    unsaid = [{**theirs, "repetition": number} for number in range(1, 6)]
    (row,) = held_against(results, *unsaid)
    assert (row["verdict"], row["compiler"]) == ("reproduced", "static")
    (row,) = held_against(results, *unsaid[:4], {**unsaid[4], "compiler": "none"})
    assert row["compiler"] == "none" and row["baseline_n_ok"] == 5


def test_a_graph_here_is_another_compiler_than_none(tmp_path):
    results = made(tmp_path, resnet50_compilers=["default"])
    theirs = figure(results, "mxnet")
    (row,) = held_against(results, theirs)
    assert (row["verdict"], row["compiler"], row["reason"]) == ("reproduced", "static", "")
    (row,) = held_against(results, {**theirs, "compiler": "none"})
    assert row["verdict"] == "not testable"
    assert row["reason"] == "another compiler: static here, none there"
    # a compiler that is no graph of the framework's own is none that a publication leaves unsaid
    (row,) = held_against(results, figure(results))
    assert row["compiler"] == "inductor" and row["verdict"] == "not testable"
    assert row["reason"] == (
        "another compiler, as far as is known: inductor here, none named there"
    )


def test_xla_that_was_off_is_no_statement_about_another_compiler(tmp_path):
    """In published tables' own form, whose column `xla` says 'no' of MXNet too."""
    stated = {
        ("mxnet", "no"): "",
        ("mxnet", ""): "",
        ("oneflow", "no"): "",
        ("tensorflow1", "no"): "none",
        ("tensorflow1", ""): "",
        ("tensorflow1", "yes"): "xla",
    }
    labels = {"mxnet": "NGC MXNet", "oneflow": "OneFlow", "tensorflow1": "NGC TensorFlow 1.x"}
    columns = "report,table,framework,model,precision,xla,nodes,gpus_per_node,devices,"
    lines = [
        f"page,t,{labels[framework]},ResNet50-v1.5,fp32,{xla},1,1,1,{n},throughput,images/s,{n}\n"
        for n, (framework, xla) in enumerate(stated, 1)
    ]
    path = tmp_path / "mine.csv"
    path.write_text(f"{columns}bsz_per_device,metric,unit,value\n{''.join(lines)}")
    values = read(path)
    assert [value.compiler for value in values] == [*stated.values()]
    assert [value.unsaid for value in values] == [
        "" if each else "compiler" for each in stated.values()
    ]


def test_a_size_that_a_publication_does_not_say_is_the_usual_one_and_said(steady, tmp_path):
    results = made(tmp_path, resnet50_image_size=224)
    said, unsaid = (
        held_against(results, figure(results, image_size=size))[0] for size in (224, "")
    )
    for row in (said, unsaid):
        assert (row["verdict"], row["image_size"]) == ("reproduced", 224)
    assert "image size" not in said["differs"] and said["unsaid"] == "compiler"
    assert "image size: 224 here, not said there" in unsaid["differs"]
    assert unsaid["unsaid"] == "compiler image_size"
    # what was measured with another size has no verdict, and the reason says what is known
    (row,) = held_against(steady, figure(steady, image_size=""))
    assert row["reason"] == (
        "another image size, as far as is known: 64 here, not said there (usual: 224)"
    )


#: What must not be called reproduced, although the numbers are equal: changes of the publication's
#: row -> what the reason says.
OTHERS = {
    "another card": ({"hardware": "V100-SXM2-16GB"}, "another card"),
    "a card that is not named": ({"hardware": ""}, "not known there"),
    "another batch": ({"batch_size": 16}, "another batch per device: 8 here, 16 there"),
    "real against synthetic data": ({"data": "synthetic"}, "sample here, synthetic there"),
    "data that are not named": ({"data": ""}, "not known there"),
    "another compiler": ({"compiler": "xla"}, "another compiler: none here, xla there"),
    "another image size": ({"image_size": 224}, "another image size: 64 here, 224 there"),
    "a mean of rates": ({"estimator": "mean_of_rates"}, "a mean of rates"),
    "a mean of rates in words": (
        {"estimator": "mean of the rates of single micro-steps, as published"},
        "a mean of rates",
    ),
    "the best of several": ({"estimator": "best of 5 runs"}, "the best or worst of several"),
    "an unknown estimator": ({"estimator": "as published"}, "how their figure was computed"),
    "no estimator": ({"estimator": ""}, "nothing is said"),
    "no figure": ({"value": "", "note": "OOM"}, "no figure there: out of memory"),
}


@pytest.mark.parametrize(("changes", "said"), OTHERS.values(), ids=OTHERS)
def test_what_is_not_the_same_is_not_testable(steady, changes, said):
    (row,) = held_against(steady, figure(steady, **changes))
    assert row["verdict"] == "not testable"
    assert said in row["reason"]
    assert row["ratio"] is None and row["p"] is None


def test_what_is_published_with_dali_belongs_to_what_dali_read(tmp_path):
    """ImageNet is the same; the kind of data says which reader it was."""
    kinds = ["imagenet", "imagenet_dali"]
    results = made(tmp_path, frameworks=["paddlepaddle"], resnet50_data=kinds)
    of_one = {**PUBLISHED, "framework": "paddlepaddle", "devices_per_node": 1, "value": 100}
    names = {"PaddlePaddle": "imagenet", "PaddlePaddle, DALI": "imagenet_dali"}
    for implementation, kind in names.items():
        told = {"implementation": implementation, "data": "imagenet"}
        (row,) = held_against(results, {**of_one, **told})
        assert row["data"] == kind and "data" not in row["reason"]
        assert row["verdict"] in ("faster", "slower")


@pytest.mark.parametrize("kind", ["imagenet", "imagenet_dali"])
def test_another_reader_than_the_published_is_a_reason(kind, tmp_path):
    results = made(tmp_path, frameworks=["paddlepaddle"], resnet50_data=[kind])
    other = "imagenet" if kind == "imagenet_dali" else "imagenet_dali"
    implementation = "PaddlePaddle, DALI" if other == "imagenet_dali" else "PaddlePaddle"
    told = {"framework": "paddlepaddle", "implementation": implementation, "data": "imagenet"}
    (row,) = held_against(results, figure(results, **told))
    assert row["verdict"] == "not testable"
    assert row["reason"] == f"other data: {kind} here, {other} there"


def test_every_reason_is_said(steady):
    changes = {"hardware": "V100", "batch_size": 16, "data": "imagenet", "image_size": 224}
    (row,) = held_against(steady, figure(steady, **changes, estimator=""))
    assert len(row["reason"].split("; ")) == 5


def on_two_cards(record) -> None:
    """The third repetition had another card."""
    if record["identity"]["repetition"] == 3:
        record["host"]["gpus"] = [{"name": "Other GPU", "driver": "580.1"}]


#: Changes of the round instead -> what the reason says.
DOUBTS = {
    "three repetitions": ({"repetitions": 3}, "too few repetitions here: 3, and 4 are needed"),
    "one repetition": ({"repetitions": 1}, "too few repetitions here: 1"),
    "no certificate": ({"verdict": lambda case: "missing"}, "equal work is not certified here"),
    "a certificate that fails": (
        {"verdict": lambda case: "timed-loss"},
        "equal work is not certified here: failed",
    ),
    "a crash": (
        {"fate": lambda case, number: ("crashed", "rank 0: no; library")},
        "no figure here: crashed: rank 0: no, library",
    ),
    "most repetitions crashed": (
        {"fate": lambda case, number: ("ok", "") if number < 4 else ("crashed", "gone")},
        "too few repetitions here: 3",
    ),
    "a laptop": ({"device": "cpu"}, "another device"),
    "two cards": ({"change": on_two_cards}, "several cards here: Example GPU and Other GPU"),
}


@pytest.mark.parametrize(("changes", "said"), DOUBTS.values(), ids=DOUBTS)
def test_a_cell_in_doubt_is_not_testable(tmp_path, changes, said):
    results = made(tmp_path, **changes)
    (row,) = held_against(results, figure(results))
    assert row["verdict"] == "not testable"
    assert said in row["reason"]


def test_a_cell_that_a_flag_excludes_is_not_testable(tmp_path):
    def other_code(record) -> None:
        record["ran_beside"]["strangers"] = ["/tmp/faster.so"]

    results = made(tmp_path, change=other_code)
    (row,) = held_against(results, figure(results))
    assert row["verdict"] == "not testable"
    assert "suspect cell, excluded from ranks: code ran that nobody vouches for" in row["reason"]


def test_a_figure_in_another_unit_is_not_testable(steady):
    publish(steady.parent, figure(steady))
    folder = steady.parent / "imported-mine"
    cells = read_table(folder / "cells.tsv")
    for cell in cells:
        cell["unit"] = "tokens/s"
    write_table(folder / "cells.tsv", list(cells[0]), cells)
    assert main(holding_against(steady)) == 0
    (row,) = read_table(steady / names.VERDICTS)
    assert row["verdict"] == "not testable"
    assert row["reason"] == "another unit: images/s here, tokens/s there"


def test_two_or_three_published_repetitions_are_too_few(steady):
    rows = [figure(steady, repetition=number) for number in (1, 2, 3)]
    (row,) = held_against(steady, *rows)
    assert row["verdict"] == "not testable"
    assert row["reason"] == "too few repetitions there: 3, and 4 are needed"


def test_mixed_precision_of_another_type_is_not_testable(tmp_path):
    def in_bfloat16(record) -> None:
        record["parity"]["compute_dtype"] = "bfloat16"

    own = {"resnet50_precisions": ["amp"], "frameworks": ["pytorch"], "topologies": ["1n1d"]}
    results = made(tmp_path, **own, change=in_bfloat16)
    row = figure(results, precision="amp", batch_size=16)
    (found,) = held_against(results, row)
    assert found["verdict"] == "not testable"
    assert found["reason"] == "another precision: computes in bfloat16 here, float16 there"
    # one's own CSV may name the type, as a round's config does
    row = figure(results, precision="amp_bf16", batch_size=16)
    (found,) = held_against(results, row, meant=["amp_bf16"])
    assert "precision" not in found["reason"]
    row = figure(results, precision="amp_fp16", batch_size=16)
    (found,) = held_against(results, row, meant=["amp_fp16"])
    assert found["reason"] == "another precision: computes in bfloat16 here, float16 there"


def test_float32_that_is_multiplied_in_tf32_is_not_testable(tmp_path):
    def in_tf32(record) -> None:
        record["parity"]["tf32"] = True

    results = made(tmp_path, change=in_tf32)
    (found,) = held_against(results, figure(results))
    assert found["reason"] == "another precision: computes in TF32 here, float32 there"


@pytest.mark.parametrize(
    ("measured", "published", "same"),
    [
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB", True),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB", True),
        ("NVIDIA A100-SXM4-80GB", "A100-40GB", False),
        ("NVIDIA A100-SXM4-80GB", "A100", False),
        ("NVIDIA A100-SXM4-40GB", "A100-PCIE-40GB", False),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX 3080", False),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX 3080", False),
        ("NVIDIA GeForce RTX 3080", "RTX 3080", True),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100 80GB HBM3", False),
        ("NVIDIA H100 NVL", "H100", False),
        ("Tesla V100-SXM2-16GB", "GPU", False),
        ("Tesla V100-SXM2-16GB", "", False),
    ],
)
def test_a_card_is_known_by_all_that_tells_it_from_others(measured, published, same):
    assert same_card(measured, published) == same


@pytest.mark.parametrize(
    "changes",
    [
        *({"framework": "jax"}, {"precision": "amp"}, {"devices_per_node": 8}),
        *({"accumulation": 2}, {"nodes": 2}, {"tensor_parallel": 2}),
    ],
    ids=str,
)
def test_what_has_no_counterpart_has_no_verdict(steady, changes):
    (row,) = held_against(steady, {**figure(steady), **changes})
    assert row["verdict"] == "no counterpart"
    assert row["reason"] == "" and row["median"] is None and row["baseline_median"] > 0


def test_of_several_cells_the_one_of_the_same_work_is_held_against_theirs(tmp_path):
    """Not the one that has the nearest number, nor one that ran where the right one crashed."""

    def fate(case, number):
        return ("crashed", "gone") if case.batch_size == 8 and number > 2 else ("ok", "")

    results = made(tmp_path, resnet50_batch_sizes={"fp32": [4, 8]}, fate=fate)
    row = {**PUBLISHED, "framework": "pytorch", "devices_per_node": 1, "value": 14.2}
    (found,) = held_against(results, row)
    assert found["batch_size"] == 8
    assert found["reason"] == "too few repetitions here: 2, and 4 are needed"


def test_a_laptop_beside_published_tables_has_reasons_and_no_empty_section(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    mapping = config(frameworks=FRAMEWORKS, repetitions=5, beside=["dlperf-v1"])
    results = write_round(tmp_path, mapping)
    folder = results.parent / "imported-dlperf-v1"
    imported(ROOT / "config/published/dlperf-v1.yaml", folder)
    everything(results)
    rows = [
        row for row in read_table(results / names.VERDICTS) if row["verdict"] != "no counterpart"
    ]
    assert len(rows) == 4  # NGC PyTorch, PyTorch, NGC MXNet and MXNet on one device
    for row in rows:
        assert row["verdict"] == "not testable"
        for said in ("another device", "batch", "imagenet there", "image size: 64 here, 224 there"):
            assert said in row["reason"]
    text = Page((results / "report.html").read_text()).text
    assert "4 of them have a counterpart here: 4 not testable." in text
    assert "None of these 4 cells is testable. For all of them:" in text


# Other rounds: with repetitions on both sides.


def two(root: Path, change=None, **changes: Any) -> list[Row]:
    """The verdicts of a round beside another one, with five repetitions of each case."""
    keys = {"frameworks": FRAMEWORKS, "repetitions": 5, **changes}
    before = keys.pop("old", {})
    old = write_round(root, config(**{**keys, **before, "round": "old"}))
    new = write_round(root, config(**keys, round="new", beside=["old"]), change=change)
    for each in (old, new):
        analyse(each)
    copy_beside(new, old)
    assert main(holding_against(new)) == 0
    return read_table(new / names.VERDICTS)


def pytorch(factor: float):
    def change(record) -> None:
        if record["identity"]["framework"] == "pytorch":
            stretch(record, factor)

    return change


def by_framework(rows: list[Row]) -> dict[str, set[str]]:
    return {name: {r["verdict"] for r in rows if r["framework"] == name} for name in FRAMEWORKS}


def test_a_round_reproduces_itself(tmp_path):
    rows = two(tmp_path)
    assert {row["verdict"] for row in rows} == {"reproduced"}
    assert {row["ratio"] for row in rows} == {1.0}
    assert {row["differs"] for row in rows} == {""}


@pytest.mark.parametrize(("factor", "verdict"), [(1 / 1.1, "faster"), (1.1, "slower")])
def test_a_cell_that_changed_by_ten_percent_is_found(tmp_path, factor, verdict):
    rows = two(tmp_path, change=pytorch(factor))
    assert by_framework(rows) == {"pytorch": {verdict}, "mxnet": {"reproduced"}}


def test_what_differs_between_rounds_stands_beside_the_verdict(tmp_path):
    def newer(record) -> None:
        record["parity"]["framework_version"] = "9.9"

    rows = two(tmp_path, change=newer)
    assert {row["verdict"] for row in rows} == {"reproduced"}
    assert all("framework version" in row["differs"] and "9.9" in row["differs"] for row in rows)


def another_cpu(record) -> None:
    record["host"]["cpu"] = "Faster CPU"


#: What must not be called reproduced between rounds.
BETWEEN = {
    "another CPU": ({"change": another_cpu}, "another CPU: Faster CPU here, Example CPU"),
    "more cores": ({"cores_per_device": 2}, "measured otherwise: cores per device"),
    "more steps": ({"steps": {"warmup": 2, "measured": 20}}, "measured steps 20 here, 10 there"),
    "another image size": ({"resnet50_image_size": 96}, "another image size: 96 here, 64 there"),
    "synthetic data": ({"resnet50_data": ["synthetic"]}, "synthetic here, sample there"),
    "another batch": ({"resnet50_batch_sizes": {"fp32": [4]}}, "4 here, 8 there"),
    "three repetitions": ({"repetitions": 3}, "too few repetitions here: 3"),
    "three repetitions there": ({"old": {"repetitions": 3}}, "too few repetitions there: 3"),
    "one repetition there": ({"old": {"repetitions": 1}}, "too few repetitions there: 1"),
}


@pytest.mark.parametrize(("changes", "said"), BETWEEN.values(), ids=BETWEEN)
def test_rounds_that_measured_otherwise_are_not_testable(tmp_path, changes, said):
    changes = dict(changes)
    change = changes.pop("change", None)
    there = {"cores_per_device": 1, "steps": {"warmup": 2, "measured": 10}, "repetitions": 5}
    there |= {"resnet50_image_size": 64, "resnet50_data": ["sample"]}
    there |= {"resnet50_batch_sizes": {"fp32": [8]}}
    old = {**there, **changes.pop("old", {})}
    rows = two(tmp_path, change=change, **changes, old=old)
    assert {row["verdict"] for row in rows} == {"not testable"}
    assert all(said in row["reason"] for row in rows)


def test_rounds_of_other_data_of_the_same_kind_are_not_testable(tmp_path):
    def others(record) -> None:
        record["provenance"]["data_manifest_sha256"] = "5" * 64

    rows = two(tmp_path, change=others)
    assert {row["reason"] for row in rows} == {
        "other data of the same kind: their manifests differ"
    }


def test_a_round_whose_work_there_was_not_certified_is_not_testable(tmp_path):
    old = write_round(
        tmp_path,
        config(round="old", frameworks=["pytorch"], repetitions=5),
        verdict=lambda case: "missing",
    )
    analyse(old)
    shutil.move(old, tmp_path / "kept")
    new = write_round(tmp_path, config(frameworks=["pytorch"], repetitions=5, beside=["old"]))
    analyse(new)
    copy_beside(new, tmp_path / "kept")
    assert main(holding_against(new)) == 0
    rows = read_table(new / names.VERDICTS)
    assert {row["verdict"] for row in rows} == {"not testable"}
    assert all("equal work is not certified there" in row["reason"] for row in rows)


def test_rounds_without_any_scatter_need_three_or_more_repetitions_a_side(tmp_path):
    keys = {"frameworks": ["pytorch"], "repetitions": 4, "topologies": ["1n1d"]}
    for name, more in (("old", {}), ("new", {"beside": ["old"]})):
        analyse(write_round(tmp_path, config(round=name, **keys, **more), noise=0))
    new = tmp_path / "results/new"
    copy_beside(new, tmp_path / "results/old")
    assert main(holding_against(new)) == 0
    (row,) = read_table(new / names.VERDICTS)
    assert row["verdict"] == "reproduced"
    assert row["p"] == 2.0**-7  # two groups of four that are each constant


def test_the_report_shows_verdicts_with_a_figure_and_what_else_differs(tmp_path):
    two(tmp_path, change=pytorch(1 / 1.1))
    new = tmp_path / "results/new"
    assert main(drawing_beside(new, "beside-old")) == 0
    assert main(reporting(new)) == 0
    text = (new / "report.html").read_text()
    _, _, section = text.partition('<section aria-labelledby="beside">')
    section, _, _ = section.partition("</section>")
    assert section.count("<svg") == 1 and "faster" in section and "reproduced" in section
    page = Page(text)  # which holds that elements are closed
    assert len(page.ids) == len(set(page.ids))
    assert (
        "Round old has 4 cells, and all of them have a counterpart here: 2 reproduced" in page.text
    )
    assert "The interval of the ratio lies within 5 % of their figure." in page.text


def test_a_figure_of_verdicts_is_made_by_its_name_also_where_nothing_is_testable(tmp_path, capsys):
    two(tmp_path, repetitions=3)
    new = tmp_path / "results/new"
    assert main(drawing_beside(new, "beside-old")) == 0
    assert "no cell is testable" in (new / "figures/beside-old.svg").read_text()
    assert (new / "figures/beside-old.png").read_bytes().startswith(b"\x89PNG")
    assert main(drawing_beside(new, "beside-odl")) == 1
    assert "no figure 'beside-odl' in this round; did you mean 'beside-old'?" in (
        capsys.readouterr().err
    )


def test_figures_have_the_names_of_what_is_beside():
    entries = ["dlperf-v1", "/data/before/", "results/dlperf-v1"]
    assert verdicts.figures(entries) == dict(
        zip(("beside-dlperf-v1", "beside-before", "beside-dlperf-v1-2"), entries, strict=True)
    )


def test_every_verdict_has_a_meaning_in_the_docs():
    text = (ROOT / "docs/comparing.md").read_text()
    for name in verdicts.VERDICTS:
        assert f"`{name}`" in text
