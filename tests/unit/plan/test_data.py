"""The plan knows what the round's data download and take on disk, before anything starts."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import ROOT

from dlperf.plan import data, expand, load
from dlperf.plan.estimate import check_disk
from dlperf.plan.show import show

CONFIG = {
    "round": "mine",
    "device": "cpu",
    "frameworks": ["pytorch"],
    "topologies": ["1n1d"],
    "repetitions": 1,
}


def test_the_plan_says_what_data_download_and_what_one_source_is_for(tmp_path):
    asked = {
        **CONFIG,
        "frameworks": ["pytorch", "tensorflow"],
        "workloads": {
            "resnet50": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "data": ["imagenet"]}
        },
    }
    config = load(asked)
    cases = expand(config)
    sets = data.missing(cases, tmp_path, ROOT / "config/data.yaml")
    assert [each.folder for each in sets] == ["imagenet-folders", "imagenet-tfrecord"]
    archive = 147_897_477_120  # bytes, fetched once
    assert data.download_bytes(sets) == archive
    assert data.disk_bytes(sets) == pytest.approx(archive * (1 + 2 * 1.1))
    (tmp_path / "data/downloads/imagenet-train").mkdir(parents=True)
    part = tmp_path / "data/downloads/imagenet-train/ILSVRC2012_img_train.tar.part"
    with open(part, "wb") as stream:
        stream.truncate(10**9)
    sets = data.missing(cases, tmp_path, ROOT / "config/data.yaml")
    assert data.download_bytes(sets) == archive - 10**9
    for each in sets:
        (tmp_path / "data" / each.folder).mkdir()
        (tmp_path / "data" / each.folder / "manifest.json").write_text("{}")
    assert data.missing(cases, tmp_path, ROOT / "config/data.yaml") == []


def test_images_that_several_kinds_of_data_read_are_downloaded_once(tmp_path):
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}}
    asked = {**CONFIG, "device": "cuda", "frameworks": ["paddlepaddle"]}
    for kinds in (["imagenet_dali"], ["imagenet", "imagenet_dali"]):
        cases = expand(load({**asked, "workloads": {"resnet50": {**section, "data": kinds}}}))
        assert not any(case.unsupported for case in cases)
        (found,) = data.missing(cases, tmp_path, ROOT / "config/data.yaml")
        assert found.folder == "imagenet-folders"
        assert found.downloads == {"imagenet-train": 147_897_477_120}


def test_too_small_a_disk_for_the_data_is_said(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    asked = {
        **CONFIG,
        "workloads": {
            "bert": {"precisions": ["fp32"], "batch_sizes": {"fp32": [8]}, "data": ["wikipedia"]}
        },
    }
    config = load(asked)
    monkeypatch.setattr("dlperf.plan.estimate.free_bytes", lambda results: 10**11)
    message = check_disk([], data.missing(expand(config), tmp_path), tmp_path)
    assert "the data in wikipedia-seq128-npz need about" in message and "100.0 GB free" in message


def test_tokens_of_a_source_are_downloaded_and_take_no_more_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(data.inputs, "folders", lambda case: ["tokens"])
    cases = [SimpleNamespace(unsupported="", data="tokens")]
    text = (ROOT / "config/data.yaml").read_text()
    path = tmp_path / "data.yaml"
    for entry, downloads in (
        ("source: openwebtext", {"openwebtext": 12_880_027_468}),
        ("file: train.bin", None),
    ):
        line = f"prepared:\n  tokens: {{tokens: {{{entry}}}}}\n"
        path.write_text(text.replace("prepared:\n", line))
        sets = data.missing(cases, tmp_path, path)
        expected = [] if downloads is None else [data.Data("tokens", downloads, 0)]
        assert sets == expected


def questions(*scenarios: str, kind: str = "squad") -> dict:
    section = {
        "scenarios": list(scenarios),
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [8]},
        "data": [kind],
        "quality": {"epochs": [2], "data": [kind]},
    }
    return {**CONFIG, "workloads": {"electra_squad": section}}


def sources_without_weights(folder: Path) -> Path:
    text = (ROOT / "config/data.yaml").read_text()
    path = folder / "data.yaml"
    path.write_text(text.replace(", weights: electra-base", ""))
    return path


def test_a_training_to_a_quality_on_questions_needs_released_weights(tmp_path):
    path = sources_without_weights(tmp_path)
    cases = expand(load(questions("train", "infer", "quality")))
    message = data.without_weights(cases, tmp_path, path)
    assert message.startswith(
        f"{path}: prepared.questions.squad.weights: is missing, but `quality` of electra_squad "
        "on `data: [squad]` starts from released weights"
    )
    assert "name the source that has them, such as `weights: electra-base`" in message
    assert data.without_weights(cases, tmp_path, ROOT / "config/data.yaml") == ""


def test_speed_may_be_measured_from_random_weights_and_a_sample_has_no_others(tmp_path):
    path = sources_without_weights(tmp_path)
    for asked in (questions("train", "infer"), questions("quality", kind="sample")):
        assert data.without_weights(expand(load(asked)), tmp_path, path) == ""


def test_of_data_that_are_there_what_they_were_made_with_counts(tmp_path):
    cases = expand(load(questions("quality", kind="squad2")))
    manifest = tmp_path / "data/squad2/manifest.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text(json.dumps({"dataset": "questions"}))
    message = data.without_weights(cases, tmp_path, ROOT / "config/data.yaml")
    assert message.startswith(f"{manifest}: weights: is missing")
    assert f"remove {manifest.parent}/" in message
    manifest.write_text(json.dumps({"weights": {"file": "model.safetensors", "sha256": "0" * 64}}))
    assert data.without_weights(cases, tmp_path, sources_without_weights(tmp_path)) == ""
    for other in ("{", "3", "[1]"):  # where it is read, it is refused
        manifest.write_text(other)
        assert data.without_weights(cases, tmp_path, ROOT / "config/data.yaml") == ""


def test_the_plan_says_that_such_a_training_is_refused(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    sources_without_weights(tmp_path / "config")
    config = load(questions("quality"))
    monkeypatch.chdir(tmp_path)
    text = " ".join(show(config, expand(config), tmp_path).split())
    assert "Refused: config/data.yaml: prepared.questions.squad.weights: is missing" in text
