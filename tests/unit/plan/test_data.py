"""The plan knows what the round's data download and take on disk, before anything starts."""

import pytest
from conftest import ROOT

from dlperf.plan import data, expand, load
from dlperf.plan.estimate import check_disk

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
