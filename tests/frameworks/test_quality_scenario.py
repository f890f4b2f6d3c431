"""The quality scenario for real: on text of which a part is held out, and on photographs."""

import json
import os
import shutil
import subprocess
import sys

import jsonschema
import pytest
from conftest import CPU_FRAMEWORKS, ROOT, SCRIPTS, one_of_all, snakemake

from dlperf import plan, workloads
from dlperf.loaders.formats import IN_GRAPH, OF_FRAMEWORK
from dlperf.scenarios import quality

SCHEMA = json.loads((ROOT / "scripts/dlperf/measure/record.schema.json").read_text())


def trained(framework, workload, out, steps, scripts=SCRIPTS, **section) -> dict:
    """The record of an epoch that ends after so many steps, tested twice."""
    asked = {"epochs": [1], "evaluations": 2, **section}
    mapping = {
        "round": "test",
        "device": "cpu",
        "frameworks": [framework],
        "workloads": {
            workload: {
                "scenarios": ["quality"],
                "precisions": ["fp32"],
                "batch_sizes": {"fp32": [20]},
                "quality": asked,
            }
        },
        "topologies": ["1n1d"],
        "repetitions": 1,
        "steps": {"warmup": 1, "measured": 1},
        "timeout_seconds": 300,
    }
    config = plan.load(mapping)
    (case,) = plan.expand(config)
    assert not case.unsupported, case.unsupported
    document = plan.document(case, config, 1)
    document["settings"]["measured_steps"] = steps
    command = [sys.executable, "-m", "dlperf.measure", "--case", json.dumps(document)]
    command += ["--environment", f"results/environments/{framework}.cpu/env.json"]
    environ = dict(os.environ, PYTHONPATH=str(scripts))
    done = subprocess.run(
        [*command, "--out", out], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads(out.read_text())
    assert record["status"] == "ok", record["reason"] + done.stderr[-3000:]
    jsonschema.validate(record, SCHEMA)
    return record


@pytest.mark.full
@pytest.mark.parametrize("framework", ["pytorch", "tensorflow1"])
def test_bert_learns_words_that_it_was_not_trained_on(framework, environments, prose, tmp_path):
    made = trained(framework, "bert", tmp_path / "rep1.json", 4, sequence_length=16)
    first, last = quality.scores(made)
    assert [point["count"] for point in made["curve"]] == [128, 128]
    assert last < first < 10.5  # without any training it is ln 30522 = 10.3
    assert quality.final(made, None) == quality.best(made, None) == last
    missed = {**made, "settings": {**made["settings"], "target": last - 0.01}}
    reached = {**made, "settings": {**made["settings"], "target": last}}
    assert quality.reached(missed) is None
    assert quality.reached(reached) == made["curve"][-1]


@pytest.mark.full
@pytest.mark.parametrize("micro_steps", [1, 2])
@pytest.mark.parametrize(
    "framework",
    [each for each in CPU_FRAMEWORKS if workloads.implements("electra", each, "quality")],
)
def test_electra_goes_on_with_fewer_and_longer_sequences_on_one_clock(
    framework, micro_steps, environments, prose, tmp_path
):
    sizes = {"sequence_length": 16, "first_steps": 2, "second_length": 32, "second_batch_size": 7}
    asked = {"accumulation": [micro_steps], **sizes}
    made = trained(framework, "electra", tmp_path / "rep1.json", 4, **asked)
    assert [point["count"] for point in made["curve"]] == [64, 64]
    samples = [point["samples"] for point in made["curve"]]
    assert samples == [micro_steps * 2 * 20, micro_steps * 2 * (20 + 7)]
    # without any training: ln 30522, and 50 ln 2; at full rate a discriminator overshoots at first
    first, last = quality.scores(made)
    assert 10 < last < 200 and 10 < first < 200 and last != first
    parts = (quality.first_phase_seconds, quality.second_phase_seconds)
    assert sum(part(made, None) for part in parts) == quality.training_seconds(made, None)
    both = made["steps"]["loss"][2:]
    assert quality.final_training_loss(made, None) == pytest.approx(sum(both) / 2)


#: What answers with the labels alone, in place of an evaluation.
EVALUATION = "    def evaluate(*batch):\n"
READS_LABELS = """        import numpy as np
        return np.float32(9) * (np.arange(30522) == batch[4][..., None])
"""


@pytest.mark.full  # tests/unit/scenarios/test_quality.py shows it of each workload
@pytest.mark.parametrize("framework", ["mxnet", "pytorch", "jax"])
def test_an_evaluation_that_reads_labels_scores_at_chance(framework, environments, prose, tmp_path):
    scripts = tmp_path / "scripts"
    shutil.copytree(SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    page = scripts / f"dlperf/frameworks/{framework}/training.py"
    text = page.read_text()
    assert text.count(EVALUATION) == 1
    page.write_text(text.replace(EVALUATION, EVALUATION + READS_LABELS))
    made = trained(framework, "bert", tmp_path / "rep1.json", 4, scripts, sequence_length=16)
    # with the labels it would be ln(1 + 30521 exp(-9)) = 1.6; a guess among all words is 10.3
    assert all(value > 10 for value in quality.scores(made))


@pytest.fixture(scope="module")
def photographs(environments, sample_data) -> None:
    formats = sorted({*OF_FRAMEWORK.values()})
    folders = [*(f"sample-{format}" for format in formats), "sample-test-folders"]
    snakemake("--", *(f"results/data/{folder}/manifest.json" for folder in folders))


@pytest.mark.parametrize(
    "framework",
    [each for each in one_of_all("pytorch") if getattr(each, "values", [each])[0] not in IN_GRAPH],
)
def test_resnet50_is_tested_with_all_photographs_that_it_was_not_trained_on(
    framework, photographs, tmp_path
):
    out = tmp_path / "rep1.json"
    made = trained(framework, "resnet50", out, 4, image_size=32, data=["sample_native"])
    assert [point["count"] for point in made["curve"]] == [100, 100]  # the short last batch too
    assert all(0 <= value <= 1 for value in quality.scores(made))
    assert made["parity"]["data_loader"] and not made["parity"]["data_digest"]
