"""Rounds that train to a quality: what cells say of the time to a target, and what they refuse."""

import json

import pytest
from analysed_round import analyse
from analysis_steps import merging
from generated_round import config, write_round

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.report import figures
from dlperf.analysis.round import metrics, names
from dlperf.analysis.schema.files import read_table
from dlperf.scenarios import quality
from dlperf.workloads import inputs as loaders

TABLE = "resnet50-quality-fp32-b32-e6"


def training(target=0.97, frameworks=("pytorch", "mxnet"), **more):
    return config(
        frameworks=list(frameworks),
        topologies=["1n1d"],
        resnet50_scenarios=["quality"],
        resnet50_quality={
            "epochs": [6],
            "evaluations": 12,
            "target": target,
            "image_size": 32,
            "batch_sizes": {"fp32": [32], "amp": [32]},
        },
        **more,
    )


def cells(tmp_path, mapping, **more):
    results = write_round(tmp_path, mapping, **more)
    analyse(results)
    return read_table(results / "cells.tsv")


def test_a_case_says_its_epochs_and_each_repetition_has_a_seed_of_its_own():
    made = plan.load(training())
    case = plan.expand(made)[0]
    assert case.folder == "resnet50/pytorch/quality-fp32-1n1d-b32-e6-digits-px32"
    assert case.certificate("cpu").endswith("/cpu-fp32-quality-1.json")
    documents = [plan.document(case, made, number)["settings"] for number in (1, 2, 3)]
    assert [each["seed"] for each in documents] == [1, 2, 3]
    # what fills no batch at an epoch's end is left out: 1438 images make 44 batches of 32
    assert documents[0]["measured_steps"] == 6 * 44
    assert documents[0]["data_dir"] == "results/data/digits"


def test_cells_have_the_accuracy_and_the_time_and_samples_to_the_target(tmp_path):
    rows = cells(tmp_path, training())
    assert metrics.own("quality") == "score"
    by_metric = {row["metric"]: row for row in rows if row["framework"] == "pytorch"}
    assert by_metric["score"]["median"] == pytest.approx(98.5, abs=0.5)
    assert (by_metric["score"]["unit"], by_metric["score"]["better"]) == ("%", "higher")
    seconds, samples = by_metric["seconds_to_target"], by_metric["samples_to_target"]
    assert (seconds["unit"], seconds["better"]) == ("s", "lower")
    assert 0 < samples["median"] < 6 * 44 * 32 and samples["median"] % (22 * 32) == 0
    assert seconds["median"] == pytest.approx(samples["median"] / 14.2, rel=0.03)
    assert by_metric["training_seconds"]["median"] == pytest.approx(
        0.9 * 6 * 44 * 32 / 14.2, rel=0.03
    )


def test_another_target_needs_no_other_run_and_one_that_is_missed_is_no_number(tmp_path):
    results = write_round(tmp_path, training())
    (results / "config.yaml").write_text(plan.dump(plan.load(training(target=0.999))))
    analyse(results)
    rows = [row for row in read_table(results / "cells.tsv") if row["framework"] == "mxnet"]
    by_metric = {row["metric"]: row for row in rows}
    assert by_metric["score"]["status"] == "ok"
    title = metrics.of_row(by_metric["score"]).title
    assert title == "Final accuracy"
    missed = by_metric["seconds_to_target"]
    assert (missed["status"], missed["reason"]) == ("missing", "the target was not reached")
    assert missed["median"] is None


def test_tables_are_made_of_accuracy_and_of_time_and_samples_to_the_target():
    found = names.table_ids(plan.expand(plan.load(training())))
    assert found[:3] == [TABLE, f"{TABLE}-seconds_to_target", f"{TABLE}-samples_to_target"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: record.pop("curve"), "curve is missing"),
        (lambda record: record["curve"].pop(), "curve has not its 12 points"),
        (lambda record: record["curve"][3].update(count=100), "has 359 to test with"),
        (lambda record: record["curve"][3].update(sums=[400, 359]), "at most 1.0 is possible"),
        (lambda record: record["curve"][3].update(seconds_tested=1.0), "do not follow"),
        (lambda record: record["settings"].update(seed=9), "was trained from seed 9, not 1"),
        (lambda record: record["settings"].update(evaluations=6), "evaluations=6"),
        (
            lambda record: record["curve"][-1].update(seconds_tested=10000.0),
            "behind the window",
        ),
    ],
)
def test_a_record_whose_curve_cannot_be_stops_the_merge(tmp_path, capsys, change, message):
    results = write_round(tmp_path, training(frameworks=["pytorch"]))
    path = next(results.glob("runs/resnet50/pytorch/quality-fp32*/rep1.json"))
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    assert main(merging(results)) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("quality", "message"),
    [
        (None, r"workloads.resnet50.quality.* is missing, but `scenarios` has 'quality'"),
        ({"epochs": [6], "target": 1.5}, r"workloads.resnet50.quality.target"),
        ({"epochs": [0]}, r"workloads.resnet50.quality.epochs"),
        ({"epochs": [6], "data": ["synthetic"]}, r"a kind of data with a test set.*digits"),
        (
            {"epochs": [6], "batch_sizes": {"amp": [32]}},
            r"workloads.resnet50.quality.batch_sizes.fp32.* is missing",
        ),
    ],
)
def test_a_mistake_in_the_section_is_one_message(quality, message):
    mapping = training(resnet50_precisions=["fp32"])
    mapping["workloads"]["resnet50"]["quality"] = quality
    if quality is None:
        del mapping["workloads"]["resnet50"]["quality"]
    with pytest.raises(plan.ConfigError, match=message):
        plan.load(mapping)


def test_a_table_of_training_does_not_name_what_only_another_scenario_has_otherwise():
    mapping = training(resnet50_precisions=["fp32"])
    mapping["workloads"]["resnet50"]["scenarios"] = ["train", "quality"]
    found = names.table_ids(plan.expand(plan.load(mapping)))
    assert found[0] == "resnet50-train-fp32-b8" and TABLE in found


def bert(**quality):
    return config(
        workloads={
            "bert": {
                "scenarios": ["quality"],
                "precisions": ["fp32"],
                "batch_sizes": {"fp32": [32]},
                "quality": {"epochs": [1], "evaluations": 4, "sequence_length": 16, **quality},
            }
        },
        repetitions=3,
    )


def test_only_standard_choices_are_trained_to_a_quality():
    asked = {
        "scenarios": ["quality"],
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [512]},
        "adam": ["lazy", "dense"],
        "quality": {"epochs": [1]},
    }
    cases = plan.expand(plan.load(config(workloads={"wide_deep": asked})))
    reasons = {case.dimensions["adam"]: case.unsupported for case in cases}
    assert not reasons["lazy"] and "standard choices alone" in reasons["dense"]


def test_of_a_loss_the_lower_value_is_the_better_one_and_reaches_a_target_from_above(tmp_path):
    results = write_round(tmp_path, bert(target=9.0))
    analyse(results)
    rows = [row for row in read_table(results / "cells.tsv") if row["framework"] == "pytorch"]
    by_metric = {row["metric"]: row for row in rows}
    final = by_metric["score"]
    assert (final["unit"], final["better"]) == ("nats", "lower")
    assert metrics.of_row(final).title == "Final masked loss"
    assert 7 < final["median"] < 9.0 and by_metric["score_best"]["median"] <= final["median"]
    assert by_metric["samples_to_target"]["median"] in (64, 128, 192, 256)
    points = read_table(results / names.CURVES)
    first = [point for point in points if point["samples"] == 64]
    assert {point["target"] for point in points} == {9.0}
    assert min(point["score"] for point in first) > final["median"]
    table = next(name for name in names.table_ids(plan.expand(plan.load(bert()))))
    path = tmp_path / "curve.svg"
    figures.figure(results / "cells.tsv", f"{table}-curve", {"svg": path})
    text = path.read_text()
    assert "masked loss on the test set, nats" in text and "target 9 nats" in text


def test_trainings_on_own_formats_wait_for_their_clock_where_a_reader_can():
    mapping = training(resnet50_precisions=["fp32"], frameworks=["tensorflow1", "tensorflow"])
    mapping["workloads"]["resnet50"]["quality"]["data"] = ["imagenet"]
    one, two = plan.expand(plan.load(mapping))
    assert "before the clock starts" in one.unsupported and not two.unsupported
    assert loaders.folders(two) == ["imagenet-tfrecord", "imagenet-test-folders"]


def test_a_round_has_a_figure_of_its_curves_which_the_audit_makes_again(tmp_path):
    results = write_round(tmp_path, training(resnet50_precisions=["fp32"]))
    analyse(results)
    name = f"{TABLE}-curve"
    assert name in names.figure_ids(plan.expand(plan.load(training())))
    svg, png = results / "figures" / f"{name}.svg", results / "figures" / f"{name}.png"
    svg.parent.mkdir()
    figures.figure(results / "cells.tsv", name, {"svg": svg, "png": png})
    text = svg.read_text()
    assert "target 97 %" in text and "images" in text and "seconds" in text
    points = read_table(results / names.CURVES)
    assert len(points) == 2 * 3 * 12
    assert {point["repetition"] for point in points} == {1, 2, 3}
    last = [point["score"] for point in points if point["samples"] == 6 * 44 * 32]
    assert min(last) > 97 and {point["target"] for point in points} == {97}


def electra(**quality):
    """Updates of 8 sequences, 48 in the first phase and 16 in the second."""
    own = {"epochs": [2], "evaluations": 8, "first_steps": 48, "second_length": 32, **quality}
    return config(
        workloads={
            "electra": {
                "scenarios": ["quality"],
                "precisions": ["fp32"],
                "batch_sizes": {"fp32": [8]},
                "sequence_length": 16,
                "quality": own,
            }
        },
        topologies=["1n1d"],
        repetitions=3,
    )


def by_metric(tmp_path, mapping):
    results = write_round(tmp_path, mapping)
    analyse(results)
    rows = [row for row in read_table(results / "cells.tsv") if row["framework"] == "pytorch"]
    return {row["metric"]: row for row in rows}


def test_a_training_of_two_phases_has_the_time_of_each_and_both_losses(tmp_path):
    found = by_metric(tmp_path, electra())
    first, second, both = (
        found[name]["median"]
        for name in ("first_phase_seconds", "second_phase_seconds", "training_seconds")
    )
    assert first == pytest.approx(0.75 * both, rel=0.05) and second == pytest.approx(both - first)
    parts = found["generator_loss"]["median"], found["discriminator_loss"]["median"]
    assert found["score"]["median"] == pytest.approx(parts[0] + 50 * parts[1])
    loss = found["final_training_loss"]
    assert (loss["unit"], loss["better"]) == ("nats", "lower")


def test_samples_are_counted_by_the_batches_of_each_phase(tmp_path):
    results = write_round(tmp_path, electra(second_batch_size=3))
    analyse(results)
    points = [row["samples"] for row in read_table(results / names.CURVES)]
    assert set(points) == {*range(64, 385, 64), 384 + 8 * 3, 384 + 16 * 3}
    rows = [row for row in read_table(results / "cells.tsv") if row["framework"] == "pytorch"]
    found = {row["metric"]: row["median"] for row in rows}
    assert found["throughput"] == pytest.approx(432 / found["training_seconds"], rel=0.05)
    assert found["first_phase_seconds"] == pytest.approx(0.75 * found["training_seconds"], rel=0.05)


def test_phases_have_no_times_where_no_evaluation_stands_between_them(tmp_path):
    found = by_metric(tmp_path, electra(first_steps=44))
    assert found["training_seconds"]["median"] > 0
    for name in ("first_phase_seconds", "second_phase_seconds"):
        assert not found.get(name, {}).get("median")


@pytest.mark.parametrize("steps", [64, 65])
def test_a_training_without_a_second_phase_is_unsupported(steps):
    cases = plan.expand(plan.load(electra(first_steps=steps)))
    reasons = {case.framework: case.unsupported for case in cases}
    assert f"{steps} leaves none of 64 updates to the second phase" in reasons["pytorch"]


def test_updates_of_several_micro_steps_are_fewer_in_an_epoch(tmp_path):
    made = plan.load(electra(accumulation=[1, 2], epochs=[4], first_steps=40, second_batch_size=3))
    cases = [case for case in plan.expand(made) if case.framework == "pytorch"]
    assert [case.folder.rpartition("/")[2] for case in cases] == [
        "quality-fp32-1n1d-b8-e4-sample-seq16-first40-then32-thenb3",
        "quality-fp32-1n1d-b8-acc2-e4-sample-seq16-first40-then32-thenb3",
    ]
    assert not any(case.unsupported for case in cases)
    settings = [plan.document(case, made, 1)["settings"]["measured_steps"] for case in cases]
    assert settings == [128, 64]
    assert [quality.samples_of(case, 64) for case in cases] == [
        40 * 8 + 24 * 3,
        2 * (40 * 8 + 24 * 3),
    ]


def test_a_model_whose_batch_norm_sees_a_micro_step_is_not_trained_in_several():
    mapping = config(
        workloads={
            "resnet50": {
                "scenarios": ["quality"],
                "precisions": ["fp32"],
                "batch_sizes": {"fp32": [8]},
                "quality": {"epochs": [1], "accumulation": [2]},
            }
        }
    )
    reasons = {case.unsupported for case in plan.expand(plan.load(mapping))}
    assert "no implementation of ResNet-50 v1.5 has accumulation" in reasons
