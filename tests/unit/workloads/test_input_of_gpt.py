"""GPT's batches: tokens and the ones that follow them, the same for every framework."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT
from token_corpora import flat

from dlperf import workloads
from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.loaders.token_files import mapped
from dlperf.prepare import prose_tokens, tokens
from dlperf.workloads.gpt.input import Batch, open_batches


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "prose-tokens"
    prose_tokens.make(folder)
    return folder


def opened(data_dir, batch_size=8, part=0, parts=1, **changes):
    asked = {"batch_size": batch_size, "data": "sample", "seed": 1, "data_dir": str(data_dir)}
    asked["dimensions"] = {"sequence_length": changes.pop("sequence_length", 64)}
    asked.update({"batches": 3, **changes}, part=part, parts=parts)
    return open_batches(Input(workload="gpt", **asked))


def first(data_dir, *arguments, **changes) -> Batch:
    with opened(data_dir, *arguments, **changes) as batches:
        return batches.next()


@pytest.mark.parametrize("data", ["sample", "synthetic"])
def test_labels_are_the_tokens_one_place_later(data_dir, data):
    batch = first(data_dir, data=data)
    assert np.array_equal(batch.tokens[:, 1:], batch.labels[:, :-1])
    for array in batch:
        assert array.shape == (8, 64) and array.dtype == np.int32
        assert array.flags.c_contiguous, "frameworks take it without a copy"


def test_samples_are_passages_of_the_corpus(data_dir):
    corpus = mapped(str(data_dir / "tokens.bin")).tokens.astype(np.int32).tobytes()
    batch = first(data_dir)
    for tokens_of_row, labels in zip(*batch, strict=True):
        assert tokens_of_row.tobytes() + labels[-1:].tobytes() in corpus


def test_ranks_share_the_batch_that_one_rank_sees(data_dir):
    whole = first(data_dir, 8)
    halves = [first(data_dir, 4, part, 2) for part in (0, 1)]
    for mine, *parts in zip(whole, *halves, strict=True):
        assert np.array_equal(mine, np.concatenate(parts))


def test_synthetic_tokens_are_of_the_whole_vocabulary_and_each_part_has_its_own(data_dir):
    vocabulary = workloads.facts("gpt").VOCABULARY
    batch = first("", 64, data="synthetic", sequence_length=1024)
    assert batch.tokens.min() < 10 and vocabulary - 10 < batch.tokens.max() < vocabulary
    other = first("", 64, 1, 2, data="synthetic", sequence_length=1024)
    assert not np.array_equal(batch.tokens, other.tokens)


def test_noise_comes_before_a_training_to_a_quality(data_dir):
    entries = prose_tokens.VOCABULARY
    with opened(data_dir, warmup=1, held_out=True) as batches:
        assert batches.next().tokens.max() >= entries, "no tokens of the corpus"
        batches.begin()
        assert batches.next().tokens.max() < entries


def test_a_file_of_ones_own_is_read_and_its_tokens_are_the_models(tmp_path):
    vocabulary = workloads.facts("gpt").VOCABULARY
    file = flat(tmp_path, range(vocabulary))
    folder = tmp_path / "tokens"
    tokens.make(folder, file, vocabulary)
    batch = first(folder, data="tokens")
    assert np.array_equal(batch.labels, batch.tokens + 1)
    flat(tmp_path, range(vocabulary + 1))
    tokens.make(folder, file, vocabulary + 1)
    with pytest.raises(DataError, match=f"the model's vocabulary has {vocabulary} entries"):
        opened(folder, data="tokens")


@pytest.mark.parametrize("framework", ["tensorflow1", "jax"])
def test_every_framework_reads_the_same(framework, data_dir, environments):
    python = environments / f"{framework}.cpu" / "bin" / "python"
    asked = {"workload": "gpt", "data": "sample", "data_dir": str(data_dir), "batch_size": 8}
    asked.update(dimensions={"sequence_length": 64}, seed=1)
    program = (
        "import json, sys; from dlperf.contract.run import Input;"
        "from dlperf.workloads.gpt.input import open_batches;"
        "b = open_batches(Input(**json.loads(sys.argv[1]))); b.next(); b.close();"
        "print(b.first_batch_sha256)"
    )
    done = subprocess.run(
        [python, "-c", program, json.dumps(asked)],
        env={"PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=True,
    )
    with opened(data_dir) as batches:
        batches.next()
        assert done.stdout.strip() == batches.first_batch_sha256
