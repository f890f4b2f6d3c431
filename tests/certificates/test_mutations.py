"""The smallest wrong settings do not pass: real runs of an implementation with one thing changed.

Each of tests/support/mutations.py replaces a piece of an implementation's source, in its page, its
workload's folding.py or its framework's package, in a copy of all; the reference stays what it is.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS
from mutations import (
    BERT,
    ELECTRA,
    PADDED,
    RESNET50,
    RIGHT,
    SHARDED,
    SQUAD,
    SQUAD_INFER,
    SQUAD_QUALITY,
    WIDE_DEEP,
    Mutation,
)

#: Mutations of variants, each with a reference of its own.
OWN_REFERENCE = {
    "sharded": SHARDED,
    "padded": PADDED,
    "squad_infer": SQUAD_INFER,
    "squad_quality": SQUAD_QUALITY,
}

ON_SQUAD = SQUAD + SQUAD_INFER + SQUAD_QUALITY


@pytest.fixture(scope="module")
def sharded(environments, criteo, tmp_path_factory) -> Path:
    """The reference of Wide & Deep with sharded tables."""
    return made_reference(environments, criteo, tmp_path_factory.mktemp("sharded"), "sharded")


@pytest.fixture(scope="module")
def wide_deep(environments, criteo, tmp_path_factory) -> Path:
    """The reference of Wide & Deep."""
    return made_reference(environments, criteo, tmp_path_factory.mktemp("wide_deep"))


def made_reference(environments: Path, criteo: Path, folder: Path, variant: str = "") -> Path:
    run(
        SCRIPTS,
        "dlperf.certify.reference",
        "--workload=wide_deep",
        f"--variant={variant}",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={criteo}",
        f"--out={folder}",
    )
    return folder


#: Sizes of a small SQuAD model; its sample has fewer than 2,000 words.
SMALL_SQUAD = {
    "VOCABULARY = 30522": "VOCABULARY = 2000",
    "WIDTH = 768": "WIDTH = 192",
    "HEADS = 12": "HEADS = 3",
    "INNER_WIDTH = 3072": "INNER_WIDTH = 384",
}


@pytest.fixture(scope="module")
def small(environments, request, tmp_path_factory) -> Callable[[str], tuple[Path, Path, Path]]:
    """(package, reference, data) of a copy whose workload has two layers: settings show as well."""

    def made(workload: str, variant: str = "") -> tuple[Path, Path, Path]:
        scripts = tmp_path_factory.mktemp(workload) / "scripts"
        shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
        facts = scripts / f"dlperf/workloads/{workload}/facts.py"
        text, squad = facts.read_text(), workload == "electra_squad"
        for old, new in {"LAYERS = 12": "LAYERS = 2", **(SMALL_SQUAD if squad else {})}.items():
            text = text.replace(f"\n{old}", f"\n{new}")
        facts.write_text(text)
        # gradients are shorter, too: the first step's still lie above ELECTRA's clip, others below
        proof = facts.with_name("proof.py")
        proof.write_text(proof.read_text().replace('"CLIP_NORM": 2000.0', '"CLIP_NORM": 900.0'))
        data = request.getfixturevalue("squad_sample" if squad else "prose")
        run(
            scripts,
            "dlperf.certify.reference",
            f"--workload={workload}",
            f"--variant={variant}",
            f"--environment={environments}/pytorch.cpu/env.json",
            f"--data-dir={data}",
            f"--out={scripts.parent}/reference",
        )
        return scripts, scripts.parent / "reference", data

    return made


def run(scripts: Path, module: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(scripts)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def certificate_of(mutation, workload, package, reference, data, folder) -> dict:
    """The certificate of a copy of the package in which the mutation was made."""
    scripts = folder / "scripts"
    shutil.copytree(package, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    package = scripts / f"dlperf/frameworks/{mutation.framework}"
    page = scripts / f"dlperf/workloads/{workload}/{mutation.framework}.py"
    names = ("training", "inference", "sparse", "transformer", "adam", "adamw", "clip", "lamb")
    paths = [page, page.with_name("folding.py"), *(package / f"{name}.py" for name in names)]
    there = [each for each in paths if each.exists()]
    path = next((each for each in there if mutation.old in each.read_text()), None)
    assert path, "the implementation reads otherwise now: change the mutation"
    source = path.read_text()
    path.write_text(source.replace(mutation.old, mutation.new) + mutation.more)
    out = folder / "certificate.json"
    run(
        scripts,
        "dlperf.certify",
        f"--workload={workload}",
        f"--framework={mutation.framework}",
        f"--compiler={mutation.compiler}",
        f"--precision={mutation.precision}",
        f"--layout={mutation.layout}",
        f"--environment={ROOT}/results/environments/{mutation.framework}.cpu/env.json",
        f"--reference={reference}",
        f"--data-dir={data}",
        "--cores=1",  # as two are made at a time
        f"--out={out}",
        "--no-long-run",
        *["--float64-only"] * mutation.float64_only,
    )
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def certificate(request, environments, tmp_path_factory) -> Iterator[Callable[[Mutation], dict]]:
    """A mutation's certificate. Each takes a core, so those of all chosen tests are made two at a
    time, from the first test on."""
    chosen = [
        item.callspec.params["mutation"]
        for item in request.session.items
        if item.path == request.path
    ]
    parts = {}
    if set(chosen) & set(RESNET50):
        fixtures = map(request.getfixturevalue, ("reference", "sample_data"))
        parts["resnet50"] = (SCRIPTS, *fixtures)
    if set(chosen) & set(WIDE_DEEP):
        parts["wide_deep"] = (SCRIPTS, *map(request.getfixturevalue, ("wide_deep", "criteo")))
    if set(chosen) & set(SHARDED):
        parts["sharded"] = (SCRIPTS, *map(request.getfixturevalue, ("sharded", "criteo")))
    if set(chosen) & set(ELECTRA):
        parts["electra"] = request.getfixturevalue("small")("electra")
    if set(chosen) & set(SQUAD):
        parts["electra_squad"] = request.getfixturevalue("small")("electra_squad")
    if set(chosen) & set(SQUAD_INFER):
        parts["squad_infer"] = request.getfixturevalue("small")("electra_squad", "infer")
    if set(chosen) & set(SQUAD_QUALITY):
        parts["squad_quality"] = request.getfixturevalue("small")("electra_squad", "quality")
    if set(chosen) & set(BERT + RIGHT):
        parts["bert"] = request.getfixturevalue("small")("bert")
    if set(chosen) & set(PADDED):
        parts["padded"] = request.getfixturevalue("small")("bert", "pad1")
    pool, running = ThreadPoolExecutor(2), {}
    for mutation in chosen:
        workload = "resnet50" if mutation in RESNET50 else "bert"
        workload = "wide_deep" if mutation in WIDE_DEEP + SHARDED else workload
        workload = "electra" if mutation in ELECTRA else workload
        workload = "electra_squad" if mutation in ON_SQUAD else workload
        given = parts[
            next((name for name, own in OWN_REFERENCE.items() if mutation in own), workload)
        ]
        folder = tmp_path_factory.mktemp("mutation")
        running[mutation] = pool.submit(certificate_of, mutation, workload, *given, folder)
    yield lambda mutation: running[mutation].result()
    pool.shutdown(cancel_futures=True)


def assert_fails(certificate: dict, tier: str = "") -> None:
    failed = [tier for tier in certificate["tiers"] if tier["passed"] is False]
    print([(each["name"], each.get("measured"), each.get("tolerance")) for each in failed])
    assert not certificate["passed"]
    # it fails because it computes something else, not because it does not run
    assert all("measured" in each for each in failed), failed
    assert tier in ("", failed[0]["name"])


def every_other(mutations: list[Mutation]) -> list:
    """All; every other one is for `make test-full`."""
    return [
        pytest.param(each, id=title(each), marks=[pytest.mark.full] * (index % 2))
        for index, each in enumerate(mutations)
    ]


def one_in_five(mutations: list[Mutation]) -> list:
    """All; four of five are for `make test-full`."""
    return [
        pytest.param(each, id=title(each), marks=[pytest.mark.full] * (index % 5 != 0))
        for index, each in enumerate(mutations)
    ]


def shortened(mutations: list[Mutation]) -> list:
    """PyTorch's, one of another framework, and of micro-steps; the rest is for `make test-full`."""
    kept = [next(each for each in mutations if each.framework == "tensorflow")]
    kept += [each for each in mutations if each.layout == "acc2"][:1]
    return [
        pytest.param(
            each,
            id=title(each),
            marks=() if each.framework == "pytorch" or each in kept else pytest.mark.full,
        )
        for each in mutations
    ]


def title(mutation: Mutation) -> str:
    return f"{mutation.framework}: {mutation.name}, {mutation.layout}"


@pytest.mark.parametrize("mutation", shortened(RESNET50))
def test_a_wrong_setting_of_resnet50_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", shortened(BERT))
def test_a_wrong_setting_of_bert_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", every_other(WIDE_DEEP))
def test_a_wrong_setting_of_wide_and_deep_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", every_other(SHARDED))
def test_a_wrong_setting_of_sharded_tables_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", one_in_five(ELECTRA))
def test_a_wrong_setting_of_electra_does_not_pass(mutation, certificate):
    if mutation.old:
        assert_fails(certificate(mutation))
    else:
        assert certificate(mutation)["passed"]


@pytest.mark.parametrize("mutation", one_in_five(PADDED))
def test_a_padded_vocabulary_has_no_share_in_any_framework(mutation, certificate):
    if mutation.old:
        assert_fails(certificate(mutation), mutation.tier)
    else:
        assert certificate(mutation)["variant"] == "pad1"
        assert certificate(mutation)["passed"], certificate(mutation)["tiers"]


@pytest.mark.parametrize("mutation", one_in_five(ON_SQUAD))
def test_a_wrong_setting_on_squad_does_not_pass(mutation, certificate):
    if mutation.old:
        assert_fails(certificate(mutation))
    else:
        assert certificate(mutation)["passed"]


@pytest.mark.parametrize("mutation", RIGHT, ids=title)
def test_the_small_bert_passes_as_it_is(mutation, certificate):
    found = certificate(mutation)
    assert found["passed"], found["tiers"]
