"""From config/data.yaml to shards: what the round trains on is fetched and made, and no more."""

import hashlib
import json
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import SMALL_ROUND, snakemake
from token_corpora import megatron

from dlperf.loaders.manifest import sha256_of_file, verify
from dlperf.prepare import sample, shards


@pytest.fixture
def folder(checkout: Path) -> Path:
    """A repository with data of its own, whose ImageNet is an archive of the sample's images."""
    (checkout / "results/data").unlink()
    made = checkout / "results/data/sample"
    sample.make(made, images_per_class=2)
    archive = checkout / "train.tar"
    with tarfile.open(archive, "w") as outer:
        for each in sorted(path for path in made.iterdir() if path.is_dir()):
            inner = checkout / f"{each.name}.tar"
            with tarfile.open(inner, "w") as images:
                for image in sorted(each.iterdir()):
                    images.add(image, image.name)
            outer.add(inner, inner.name)
    say(checkout, sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    return checkout


def say(checkout: Path, **changes) -> None:
    """Where the archive is, in config/data.yaml."""
    path = checkout / "config/data.yaml"
    content = yaml.safe_load(path.read_text())
    file = {"name": "train.tar", "addresses": [f"file://{checkout}/train.tar"], **changes}
    source = content["sources"]["imagenet-train"]
    content["sources"]["imagenet-train"] = {**source, "files": [file]}
    content["prepared"]["images"]["imagenet"]["shards"] = 4
    path.write_text(yaml.safe_dump(content))


def ask(checkout: Path, **workloads) -> None:
    common = {"precisions": ["fp32"], "batch_sizes": {"fp32": [2]}}
    asked = {name: {**common, "data": [data]} for name, data in workloads.items()}
    config = {**SMALL_ROUND, "frameworks": ["pytorch", "tensorflow"], "workloads": asked}
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config))


def jobs(checkout: Path, target: str) -> dict[str, int]:
    """Rule -> how many jobs of it a dry run counts."""
    done = snakemake("-n", target, cwd=checkout)
    table = (done.stdout + done.stderr).partition("Job stats")[2].partition("total")[0]
    return {name: int(count) for name, count in re.findall(r"(\w+) +(\d+)", table)}


def test_data_makes_what_the_round_trains_on_and_no_more(checkout):
    ask(checkout, resnet50="imagenet", bert="wikipedia")
    # the training images alone; one dump, one vocabulary; a format a framework, one for BERT
    expected = {"fetch": 3, "images": 2, "documents": 1, "examples": 1, "data": 1}
    assert jobs(checkout, "data") == expected
    ask(checkout, electra="wikipedia")
    assert jobs(checkout, "data") == {"fetch": 2, "documents": 1, "corpus": 1, "data": 1}
    ask(checkout, resnet50="synthetic", bert="synthetic")
    assert jobs(checkout, "data") in ({}, {"data": 1})


def test_an_archive_is_fetched_verified_and_made_into_shards(folder):
    ask(folder, resnet50="imagenet")
    snakemake("data", cwd=folder)
    data = folder / "results/data"
    fetched = json.loads((data / "downloads/imagenet-train/manifest.json").read_text())
    assert [file["path"] for file in fetched["files"]] == ["train.tar"]
    digests = set()
    for format in ("folders", "tfrecord"):
        made = data / f"imagenet-{format}"
        manifest = json.loads((made / "manifest.json").read_text())
        assert manifest["samples"] == 40 and manifest["shards"] == 4
        digests |= {manifest["samples_sha256"], shards.digest(made, manifest)}
    assert len(digests) == 1
    assert not (data / "downloads/imagenet-val").exists()


def test_a_wrong_checksum_is_told_on_the_terminal_and_nothing_is_made(folder):
    ask(folder, resnet50="imagenet")
    say(folder, sha256="0" * 64)
    done = snakemake("data", cwd=folder, check=False)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "gives a wrong file" in said and "sources.imagenet-train" in said
    assert not list((folder / "results/data").rglob("train.tar"))
    assert not (folder / "results/data/imagenet-tfrecord").exists()


def declare_tokens(checkout: Path, **entry) -> None:
    path = checkout / "config/data.yaml"
    content = yaml.safe_load(path.read_text())
    content["prepared"]["tokens"] = {"tokens": entry} if entry else {}
    path.write_text(yaml.safe_dump(content))


def test_a_corpus_of_tokens_is_linked_and_checked_again_when_it_changes(checkout):
    (checkout / "results/data").unlink()
    target, corpus = "results/data/tokens/manifest.json", checkout / "mine.bin"

    def make(count: int) -> tuple[bool, str]:
        np.arange(count, dtype=np.uint16).tofile(corpus)
        done = snakemake(target, cwd=checkout, check=False)
        return done.returncode == 0, " ".join((done.stdout + done.stderr).split())

    made, said = make(500)
    assert not made and "config/data.yaml: prepared.tokens has no 'tokens' [there: none" in said
    declare_tokens(checkout, file="none.bin")
    made, said = make(500)
    assert not made and "prepared.tokens.tokens.file: none.bin: no such file" in said
    declare_tokens(checkout, file=str(corpus), vocabulary_size=600)
    assert make(500)[0]
    assert json.loads((checkout / target).read_text())["tokens"] == 500
    assert (checkout / target).with_name("tokens.bin").readlink() == corpus
    made, said = make(700)
    assert not made and "mine.bin: token 600 is 600; ids of 0 to 599 are needed" in said
    assert not (checkout / target).exists()


def test_a_corpus_of_tokens_is_fetched_from_a_source(checkout):
    (checkout / "results/data").unlink()
    path = megatron(checkout, [100, 200])
    content = yaml.safe_load((checkout / "config/data.yaml").read_text())
    files = [
        {"name": each.name, "addresses": [each.as_uri()], "sha256": sha256_of_file(each)}
        for each in (path, path.with_suffix(".idx"))
    ]
    source = {"title": "Mine", "licence": "CC0", "access": "public", "files": files}
    content["sources"]["mine"] = source
    (checkout / "config/data.yaml").write_text(yaml.safe_dump(content))
    declare_tokens(checkout, source="mine")
    target = "results/data/tokens/manifest.json"
    snakemake(target, cwd=checkout)
    manifest = verify(str(checkout / target))
    assert (manifest["tokens"], manifest["documents"]) == (300, 2)


def test_a_training_to_a_quality_from_random_weights_is_refused_before_anything_starts(checkout):
    for shared in ("data", "environments"):
        (checkout / "results" / shared).unlink()
    path = checkout / "config/data.yaml"
    path.write_text(path.read_text().replace(", weights: electra-base", ""))
    section = {"precisions": ["fp32"], "batch_sizes": {"fp32": [2]}, "data": ["squad"]}
    section.update(scenarios=["train", "quality"], quality={"epochs": [1], "data": ["squad"]})
    config = {**SMALL_ROUND, "frameworks": ["pytorch"], "workloads": {"electra_squad": section}}
    config["environments"] = {"interpreters": {"pytorch": sys.executable}}
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(config))
    done = snakemake("all", cwd=checkout, check=False)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "config/data.yaml: prepared.questions.squad.weights: is missing" in said
    assert not (checkout / "results/data").exists()
