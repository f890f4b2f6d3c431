"""The smallest wrong settings do not pass: real runs of an implementation with one thing changed.

Each mutation of tests/support/wrong is an edit of an implementation's syntax tree, in its page, in
what that imports of its workload or in its framework's package, in a copy of all; the reference
stays what it is.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, SCRIPTS, no_bfloat16, skip_without_bfloat16, the_first
from edits import Replace, assignment, edit_file
from wrong import Mutation, make
from wrong.bert import BERT, MICRO_STEPS, PADDED, RIGHT
from wrong.dropout import DROPOUT, FEW
from wrong.electra import ELECTRA, SIZES
from wrong.electra import QUALITY as TWO_PHASES
from wrong.electra_squad import IN_BFLOAT16, INFER, QUALITY, SQUAD
from wrong.gpt import ALONE, SPLIT
from wrong.gpt import RIGHT as GPT
from wrong.gpt_deepspeed import GPT_DEEPSPEED
from wrong.gpt_deepspeed import RIGHT as GPT_IN_DEEPSPEED
from wrong.gpt_jax import GPT_JAX
from wrong.gpt_jax import RIGHT as GPT_IN_JAX
from wrong.gpt_megatron import GPT_MEGATRON
from wrong.gpt_megatron import RIGHT as GPT_IN_MEGATRON
from wrong.gpt_mindspore import GPT_MINDSPORE
from wrong.gpt_mindspore import RIGHT as GPT_IN_MINDSPORE
from wrong.gpt_mindspore import SPLIT as SPLIT_IN_MINDSPORE
from wrong.gpt_mxnet import GPT_MXNET
from wrong.gpt_mxnet import RIGHT as GPT_IN_MXNET
from wrong.gpt_oneflow import GPT_ONEFLOW
from wrong.gpt_oneflow import RIGHT as GPT_IN_ONEFLOW
from wrong.gpt_oneflow import SPLIT as SPLIT_IN_ONEFLOW
from wrong.gpt_paddlepaddle import GPT_PADDLEPADDLE
from wrong.gpt_paddlepaddle import RIGHT as GPT_IN_PADDLEPADDLE
from wrong.gpt_paddlepaddle import SPLIT as SPLIT_IN_PADDLEPADDLE
from wrong.gpt_tensorflow import GPT_TENSORFLOW
from wrong.gpt_tensorflow import RIGHT as GPT_IN_TENSORFLOW
from wrong.gpt_tensorflow import SPLIT as SPLIT_IN_TENSORFLOW
from wrong.gpt_tensorflow1 import GPT_TENSORFLOW1
from wrong.gpt_tensorflow1 import RIGHT as GPT_IN_TENSORFLOW1
from wrong.insightface import HALF, HEADS, INSIGHTFACE, SAMPLERS
from wrong.insightface import RIGHT as FACES
from wrong.insightface_jax import HALF as HALF_IN_JAX
from wrong.insightface_jax import INSIGHTFACE_JAX
from wrong.insightface_jax import RIGHT as FACES_IN_JAX
from wrong.insightface_mindspore import INSIGHTFACE_MINDSPORE
from wrong.insightface_mindspore import RIGHT as FACES_IN_MINDSPORE
from wrong.insightface_mxnet import INSIGHTFACE_MXNET
from wrong.insightface_mxnet import RIGHT as FACES_IN_MXNET
from wrong.insightface_oneflow import RIGHT as FACES_IN_ONEFLOW
from wrong.insightface_oneflow import SPLIT as HEADS_IN_ONEFLOW
from wrong.insightface_paddlepaddle import INSIGHTFACE_PADDLEPADDLE
from wrong.insightface_paddlepaddle import RIGHT as FACES_IN_PADDLEPADDLE
from wrong.insightface_tensorflow import HALF as HALF_IN_TENSORFLOW
from wrong.insightface_tensorflow import INSIGHTFACE_TENSORFLOW
from wrong.insightface_tensorflow import RIGHT as FACES_IN_TENSORFLOW
from wrong.insightface_tensorflow1 import RIGHT as FACES_IN_TENSORFLOW1
from wrong.resnet50 import RESNET50
from wrong.slow import SLOW
from wrong.wide_deep import SHARDED, WIDE_DEEP

#: The fixture with the data that a workload's certificates take.
DATA = {
    "resnet50": "sample_data",
    "wide_deep": "criteo",
    "bert": "prose",
    "electra": "prose",
    "electra_squad": "squad_sample",
    "gpt": "prose_tokens",
    "insightface": "faces_sample",
}
#: Sizes of a small SQuAD model; its sample has fewer than 2,000 words.
SMALL_SQUAD = {"VOCABULARY": "2000", "WIDTH": "192", "HEADS": "3", "INNER_WIDTH": "384"}
#: Sizes of models with two layers: settings show as well.
SMALL = {
    "bert": {"LAYERS": "2"},
    "electra": {"LAYERS": "2"},
    "electra_squad": {"LAYERS": "2", **SMALL_SQUAD},
}
#: Where gradients of so small a model are shorter: a norm that some steps' lie above, others below.
SMALL_CLIPS = {"electra": 900.0, "electra_squad": 20.0}


def small_package(workload: str, folder: Path) -> Path:
    """A copy of the project's code whose workload is small."""
    scripts = copied(SCRIPTS, folder)
    facts = scripts / f"dlperf/workloads/{workload}/facts.py"
    for name, value in SMALL[workload].items():
        edit_file(assignment(name, value), facts)
    if workload in SMALL_CLIPS:
        new = f"Proof(..., settings=dict(_as_it_is, CLIP_NORM={SMALL_CLIPS[workload]}))"
        edit_file(Replace("", "Proof(..., settings=_as_it_is)", new), facts.with_name("proof.py"))
    return scripts


def copied(package: Path, folder: Path) -> Path:
    scripts = folder / "scripts"
    shutil.copytree(package, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    return scripts


def made_reference(package, workload, variant, environments, data, folder, long_run=False) -> Path:
    """A workload's reference, by plain float64 formulas, as this copy of the code makes it; with
    its long runs, or without."""
    options = (
        f"--workload={workload}",
        f"--variant={variant}",
        f"--environment={environments}/pytorch.cpu/env.json",
        f"--data-dir={data}",
    )
    one_core = {"OMP_NUM_THREADS": "1"}  # as two are made at a time
    run(package, "dlperf.certify.reference", *options, f"--out={folder}", **one_core)
    if long_run:
        run(package, "dlperf.certify.long_run", *options, f"--out={folder}/long.json", **one_core)
    return folder


def run(scripts: Path, module: str, *arguments: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(scripts), **environment),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def certificate_of(mutation: Mutation, package, reference, data, folder) -> dict:
    """The certificate of a copy of the package in which the mutation was made."""
    scripts = copied(package, folder)
    make(mutation, scripts)
    out = folder / "certificate.json"
    run(
        scripts,
        "dlperf.certify",
        f"--workload={mutation.workload}",
        f"--framework={mutation.framework}",
        f"--compiler={mutation.compiler}",
        f"--precision={mutation.precision}",
        f"--layout={mutation.layout}",
        f"--environment={ROOT}/results/environments/{mutation.framework}.cpu/env.json",
        f"--reference={reference}",
        f"--data-dir={data}",
        "--cores=1",  # as two are made at a time
        f"--out={out}",
        *["--no-long-run"] * (not mutation.long_run),
        *["--float64-only"] * mutation.float64_only,
    )
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def certificate(request, environments, tmp_path_factory) -> Iterator[Callable[[Mutation], dict]]:
    """A mutation's certificate. Each takes a core, so those of all chosen tests are made two at a
    time, from the first test on; so are the references before them."""
    asked = [
        item.callspec.params["mutation"]
        for item in request.session.items
        if item.path == request.path
    ]
    chosen = [each for each in asked if not no_bfloat16(each.framework, each.precision)]

    references, pool = ThreadPoolExecutor(2), ThreadPoolExecutor(2)

    def given(workload: str, variant: str) -> tuple[Path, Future, Path]:
        """(package, the reference to come, data)"""
        data, package = request.getfixturevalue(DATA[workload]), SCRIPTS
        long_run = any(
            each.long_run for each in chosen if (each.workload, each.variant) == (workload, variant)
        )
        if (workload, variant) == ("resnet50", "") and not long_run:
            there = request.getfixturevalue("reference")
            return package, references.submit(lambda: there), data
        folder = tmp_path_factory.mktemp(workload)
        if workload in SMALL:
            package = small_package(workload, folder)
        asked = (package, workload, variant, environments, data, folder / "reference", long_run)
        return package, references.submit(made_reference, *asked), data

    def made(mutation, package, reference, data, folder) -> dict:
        return certificate_of(mutation, package, reference.result(), data, folder)

    def of(mutation: Mutation) -> dict:
        skip_without_bfloat16(mutation.framework, mutation.precision)
        return running[mutation].result()

    keys = dict.fromkeys((each.workload, each.variant) for each in chosen)
    parts, running = {key: given(*key) for key in keys}, {}
    for mutation in chosen:
        folder = tmp_path_factory.mktemp("mutation")
        part = parts[mutation.workload, mutation.variant]
        running[mutation] = pool.submit(made, mutation, *part, folder)
    yield of
    for each in (references, pool):
        each.shutdown(cancel_futures=True)


def assert_fails(certificate: dict, tier: str = "") -> None:
    failed = [each for each in certificate["tiers"] if each["passed"] is False]
    # all of them where none failed: by how much
    shown = failed or certificate["tiers"]
    print([(each["name"], each.get("measured"), each.get("tolerance")) for each in shown])
    assert not certificate["passed"]
    # it fails because it computes something else, not because it does not run; behind that, answers
    # to sequences of another length are not compared
    assert "measured" in failed[0], failed
    assert tier in ("", failed[0]["name"])


def assert_as_it_should_be(mutation: Mutation, found: dict) -> None:
    """A wrong setting fails, and an implementation as it is passes."""
    if mutation.edit:
        assert_fails(found)
    else:
        assert found["passed"], found["tiers"]


def one_in(count: int, mutations: list[Mutation]) -> list:
    """All; but for one in so many they are for `make test-full`."""
    return [
        pytest.param(each, id=title(each), marks=[pytest.mark.full] * (index % count != 0))
        for index, each in enumerate(mutations)
    ]


def first(count: int, mutations: list[Mutation]) -> list:
    """All; those behind the first `count` are for `make test-full`."""
    return the_first(count, mutations, title)


def title(mutation: Mutation) -> str:
    return f"{mutation.framework}: {mutation.name}, {mutation.layout}"


@pytest.mark.parametrize("mutation", one_in(18, RESNET50))
def test_a_wrong_setting_of_resnet50_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", first(FEW, DROPOUT))
def test_dropout_of_other_random_numbers_does_not_pass(mutation, certificate):
    found = certificate(mutation)
    assert_fails(found)
    failed = {tier["name"] for tier in found["tiers"] if tier["passed"] is False}
    assert mutation.tier in failed and all(each.startswith("dropout-") for each in failed)


@pytest.mark.parametrize("mutation", first(1, SLOW))
def test_slow_damage_shows_in_the_long_run(mutation, certificate):
    """Also where a step that is left out gives the loss of the one before in others."""
    tiers = [each for each in certificate(mutation)["tiers"] if each["passed"] is False]
    failed = [each["name"] for each in tiers]
    assert failed in (["long-run"], ["dropout-deviation", "long-run"]), tiers


@pytest.mark.parametrize("mutation", first(1, BERT))
def test_a_wrong_setting_of_bert_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", one_in(24, WIDE_DEEP))
def test_a_wrong_setting_of_wide_and_deep_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", one_in(16, SHARDED))
def test_a_wrong_setting_of_sharded_tables_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize("mutation", one_in(36, ELECTRA))
def test_a_wrong_setting_of_electra_does_not_pass(mutation, certificate):
    assert_as_it_should_be(mutation, certificate(mutation))


@pytest.mark.full
@pytest.mark.parametrize("mutation", one_in(12, TWO_PHASES) + first(0, SIZES))
def test_a_wrong_second_phase_of_electra_does_not_pass(mutation, certificate):
    if mutation.edit:
        assert_fails(certificate(mutation))
    else:
        assert certificate(mutation)["variant"] == "quality"
        assert certificate(mutation)["passed"], certificate(mutation)["tiers"]


@pytest.mark.full
@pytest.mark.parametrize("mutation", one_in(9, PADDED))
def test_a_padded_vocabulary_has_no_share_in_any_framework(mutation, certificate):
    if mutation.edit:
        assert_fails(certificate(mutation), mutation.tier)
    else:
        assert certificate(mutation)["variant"] == "pad1"
        assert certificate(mutation)["passed"], certificate(mutation)["tiers"]


@pytest.mark.parametrize("mutation", first(1, SQUAD + INFER + QUALITY) + first(0, IN_BFLOAT16))
def test_a_wrong_setting_on_squad_does_not_pass(mutation, certificate):
    assert_as_it_should_be(mutation, certificate(mutation))


@pytest.mark.parametrize(
    "mutation",
    one_in(20, ALONE)
    + first(1, SPLIT)
    + first(0, GPT_DEEPSPEED + GPT_JAX + SPLIT_IN_MINDSPORE + SPLIT_IN_PADDLEPADDLE)
    + first(0, GPT_TENSORFLOW + GPT_TENSORFLOW1 + GPT_MXNET + GPT_MEGATRON)
    + first(0, GPT_ONEFLOW + GPT_PADDLEPADDLE + GPT_MINDSPORE)
    + first(0, SPLIT_IN_TENSORFLOW + SPLIT_IN_ONEFLOW),
)
def test_a_wrong_setting_of_gpt_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize(
    "mutation",
    first(1, GPT)
    + first(0, GPT_IN_JAX)
    + first(1, GPT_IN_DEEPSPEED)
    + first(0, GPT_IN_MEGATRON + GPT_IN_TENSORFLOW + GPT_IN_ONEFLOW)
    + first(0, GPT_IN_TENSORFLOW1 + GPT_IN_MXNET + GPT_IN_PADDLEPADDLE + GPT_IN_MINDSPORE),
)
def test_gpt_passes_in_every_layout_as_it_is(mutation, certificate):
    found = certificate(mutation)
    assert found["passed"], found["tiers"]


@pytest.mark.parametrize(
    "mutation",
    first(1, INSIGHTFACE)
    + first(0, HEADS + SAMPLERS + HALF)
    + first(0, INSIGHTFACE_JAX)
    + first(0, HALF_IN_JAX)
    + first(0, INSIGHTFACE_TENSORFLOW + HALF_IN_TENSORFLOW)
    + first(0, INSIGHTFACE_MINDSPORE)
    + first(1, INSIGHTFACE_MXNET)
    + first(0, HEADS_IN_ONEFLOW)
    + first(0, INSIGHTFACE_PADDLEPADDLE),
)
def test_a_wrong_setting_of_insightface_does_not_pass(mutation, certificate):
    assert_fails(certificate(mutation), mutation.tier)


@pytest.mark.parametrize(
    "mutation",
    first(1, FACES)
    + first(0, FACES_IN_JAX)
    + first(0, FACES_IN_ONEFLOW + FACES_IN_MXNET)
    + first(0, FACES_IN_TENSORFLOW + FACES_IN_TENSORFLOW1)
    + first(0, FACES_IN_MINDSPORE)
    + first(0, FACES_IN_PADDLEPADDLE),
)
def test_insightface_passes_with_every_head_as_it_is(mutation, certificate):
    found = certificate(mutation)
    assert found["passed"], found["tiers"]


@pytest.mark.parametrize("mutation", first(0, MICRO_STEPS))
def test_bert_is_trained_to_a_quality_in_micro_steps(mutation, certificate):
    assert_as_it_should_be(mutation, certificate(mutation))


@pytest.mark.parametrize("mutation", first(1, RIGHT))
def test_the_small_bert_passes_as_it_is(mutation, certificate):
    found = certificate(mutation)
    assert found["passed"], found["tiers"]
