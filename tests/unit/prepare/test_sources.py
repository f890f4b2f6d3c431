"""Sources of data sets: what config/data.yaml may say, and how mistakes are told."""

import json

import jsonschema
import pytest
import yaml
from conftest import ROOT

from dlperf.contract.problems import ConfigError
from dlperf.prepare import sources
from dlperf.prepare.sources import estimate, load, masked

CONFIG = ROOT / "config"
SHA256 = "0" * 64


def small(**changes):
    """A source that says everything that must be said; `changes` are to its only file."""
    file = {"name": "a.tar", "addresses": ["https://example.org/a.tar"], "sha256": SHA256}
    return {"title": "A set", "licence": "CC0", "access": "public", "files": [{**file, **changes}]}


@pytest.fixture
def loaded(tmp_path):
    """Loads what is given, as the file mine.yaml."""

    def load_it(content):
        path = tmp_path / "mine.yaml"
        path.write_text(yaml.safe_dump(content))
        return load(path)

    return load_it


@pytest.fixture
def problems(loaded, tmp_path):
    def told(content):
        with pytest.raises(ConfigError) as caught:
            loaded(content)
        return str(caught.value).replace(str(tmp_path) + "/", "").splitlines()

    return told


# The file that comes with the project


def test_the_sources_that_come_with_the_project_are_valid():
    found = load(CONFIG / "data.yaml")
    content = yaml.safe_load((CONFIG / "data.yaml").read_text())
    jsonschema.validate(content, json.loads(sources.json_schema()))
    assert {
        "imagenet-train",
        "imagenet-val",
        "wikipedia",
        "bert-vocabulary",
        "criteo-kaggle",
    } <= found.keys()
    assert {"ms1m", "glint360k", "openwebtext", "squad-1.1", "squad-2.0"} <= found.keys()


def test_every_file_of_them_has_a_checksum_or_says_that_none_is_known():
    found = load(CONFIG / "data.yaml")
    unknown = [
        name for name, source in found.items() if not all(each.checksums for each in source.files)
    ]
    assert unknown == ["ms1m", "electra-base"]


def test_no_address_of_them_is_asked_for_in_clear():
    for source in load(CONFIG / "data.yaml").values():
        for file in source.files:
            assert all(address.startswith("https://") for address in file.addresses)


def test_the_schema_is_what_the_models_say():
    text = (CONFIG / "data.schema.json").read_text()
    assert text == sources.json_schema(), "run: python -m dlperf.prepare.sources schema"


def test_every_key_is_described():
    schema = json.loads(sources.json_schema())
    for model in [schema, *schema["$defs"].values()]:
        assert all(entry.get("description") for entry in model["properties"].values())


# Mistakes


def test_all_problems_are_told_at_once_each_with_file_key_and_value(problems):
    lines = problems(
        {
            "sources": {
                "first": {**small(name="../up", sha256="12"), "licnce": "CC0"},
                "second": {**small(addresses=["ftp://example.org/a"]), "files": "none"},
                "third": small(bytes=-1, addresses=["https://example.org/a", "gopher://x"]),
                "bad name": small(),
            }
        }
    )
    assert all(line.startswith("mine.yaml: sources.") for line in lines)
    told = {line.split(": ")[1]: line.split(": ", 2)[2] for line in lines}
    assert told["sources.first.files[0].name"].startswith("'../up' is not a path inside")
    assert told["sources.first.files[0].sha256"].startswith("'12' is not 64 digits")
    assert "did you mean 'licence'?" in told["sources.first.licnce"]
    assert told["sources.second.files"].startswith("'none' must be of the type list")
    assert told["sources.third.files[0].bytes"].startswith("-1 must be greater")
    assert told["sources.third.files[0].addresses[1]"].startswith("'gopher://x' is not an address")
    assert len(lines) == 7


def test_a_file_without_any_checksum_is_a_problem_until_the_file_says_so(problems, loaded):
    (line,) = problems({"sources": {"mine": small(sha256=None)}})
    assert "has no checksum: give `sha256`, `sha1` or `md5`, or say `sha256: unknown`" in line
    assert loaded({"sources": {"mine": small(sha256="unknown")}})["mine"].files[0].checksums == {}


@pytest.mark.parametrize(
    "address",
    [
        "https://me:hidden@example.org/a",
        "https://example.org/a?X-Amz-Signature=hidden",
        "https://example.org/a?token=hidden",
    ],
)
def test_a_secret_in_the_file_is_a_problem_and_is_not_shown(problems, address):
    (line,) = problems({"sources": {"mine": small(addresses=[address])}})
    assert "write `env:<its name>`" in line and "example.org" in line
    assert "hidden" not in line


def test_an_address_may_have_a_query_that_is_no_secret(loaded):
    assert loaded({"sources": {"mine": small(addresses=["https://example.org/a?download=1"])}})


def test_two_files_of_one_name_are_a_problem(problems):
    source = small()
    source["files"].append({**source["files"][0], "md5": "0" * 32})
    (line,) = problems({"sources": {"mine": source}})
    assert "sources.mine.files[1].name: 'a.tar' is the name of an earlier file" in line


@pytest.mark.parametrize(
    "credentials",
    [{"user": "A"}, {"user": "A", "password": "B", "header": "Cookie", "value": "C"}, {}],
    ids=str,
)
def test_credentials_are_user_and_password_or_header_and_value(problems, credentials):
    source = {**small(), "credentials": {"hosts": ["example.org"], **credentials}}
    (line,) = problems({"sources": {"mine": source}})
    assert "needs `user` and `password`, or `header` and `value`" in line


def test_a_source_that_is_not_there_is_told_with_the_nearest():
    found = load(CONFIG / "data.yaml")
    with pytest.raises(ConfigError, match=r"did you mean 'wikipedia'\?.*\[allowed: imagenet-train"):
        sources.choose(found, "wikipeda", CONFIG / "data.yaml")


# What messages and plans show


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://me:hidden@example.org:8080/a", "https://example.org:8080/a"),
        ("https://example.org/a?sig=hidden", "https://example.org/a?***"),
        ("s3://bucket/key", "s3://bucket/key"),
        ("env:SIGNED", "env:SIGNED"),
        ("https://[hidden", "https://***"),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address, shown):
    assert masked(address) == shown


def test_an_estimate_counts_what_is_missing_and_what_is_half_there(loaded, tmp_path):
    source = small(bytes=100)
    source["files"] += [
        {"name": "half", "bytes": 100, "sha256": SHA256},
        {"name": "there", "bytes": 3, "sha256": SHA256},
        {"name": "long", "sha256": SHA256},
    ]
    (tmp_path / "half.part").write_bytes(bytes(40))
    (tmp_path / "there").write_bytes(b"abc")
    found = estimate(loaded({"sources": {"mine": source}})["mine"], tmp_path)
    assert (found.to_download, found.disk_needed) == (160, 160)
    assert found.there == ("there",) and found.missing == ("a.tar", "half", "long")
    assert found.unknown == ("long",)


def test_what_lies_on_this_machine_is_not_downloaded(loaded, tmp_path):
    source = {**small(bytes=100), "local": str(tmp_path)}
    assert estimate(loaded({"sources": {"mine": source}})["mine"], tmp_path).to_download == 0


# What is made of them


def test_a_corpus_with_a_source_names_its_vocabulary(problems):
    made = {"text": {"mine": {"source": "dump", "shards": 8, "duplicates": 1}}}
    assert problems({"sources": {"dump": small()}, "prepared": made}) == [
        "mine.yaml: prepared.text.mine.vocabulary: is missing; a corpus with a source needs one "
        "[allowed: dump]"
    ]


def test_what_is_prepared_comes_from_sources_that_are_there(problems):
    made = {"images": {"imagenet": {"source": "imagenet", "shards": 8}}}
    told = problems({"sources": {"imagenet-train": small()}, "prepared": made})
    assert told == [
        "mine.yaml: prepared.images.imagenet.source: 'imagenet' is not a source of this file; did "
        "you mean 'imagenet-train'? [allowed: imagenet-train]"
    ]
