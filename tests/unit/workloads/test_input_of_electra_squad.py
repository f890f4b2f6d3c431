"""Files of SQuAD's form become tokens, windows and batches, and answers map back to their text."""

import json
import struct
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dlperf import workloads
from dlperf.analysis.report import provenance
from dlperf.contract.run import Input
from dlperf.loaders import DataError
from dlperf.loaders.manifest import sha256_of_file, verify
from dlperf.loaders.text import SEPARATOR, START, decoded
from dlperf.prepare import checkpoint, manifest, questions
from dlperf.scenarios import quality
from dlperf.workloads.electra_squad import answers, facts
from dlperf.workloads.electra_squad import input as squad


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("squad") / "squad-sample"
    questions.main(["--out", str(out)])
    return out


def asked(folder, length=48, **changes) -> Input:
    found = Input("electra_squad", "sample", str(folder), 4, {"sequence_length": length}, 1)
    return found._replace(**changes)


def opened(folder, *arguments, **changes):
    return squad.open_batches(asked(folder, *arguments, **changes), prefetch=1)


def trained(folder) -> list[questions.Question]:
    paragraphs = questions.read(questions.SAMPLES / "squad-train.json")
    return [each for paragraph in paragraphs for each in paragraph.questions]


def test_the_sample_has_what_the_facts_say(folder):
    made = verify(str(folder / "manifest.json"))
    kind = facts.DATA["sample"]
    assert (made["train_questions"], made["test_questions"]) == (kind.samples, kind.tests)
    assert made["train_unanswerable"] == 12
    assert "left_out" not in made, "every answer stands at its place"
    assert provenance.contents(made) == (
        "48 questions to train on, 12 of them without an answer; 16 to test with, 4 without"
    )


def test_the_same_files_give_the_same_bytes(folder, tmp_path):
    questions.main(["--out", str(tmp_path / "again")])
    again = json.loads((tmp_path / "again/manifest.json").read_text())
    assert again["sha256"] == json.loads((folder / "manifest.json").read_text())["sha256"]


def test_a_window_shows_the_question_and_the_place_of_its_answer(folder):
    own = squad.Questions(folder / "train.npz", 128)
    assert len(own.table) == 48, "at 128 tokens every paragraph of the sample fits into one window"
    batch = own.batch(range(48))
    for row, question in enumerate(trained(folder)):
        words = decoded(folder, batch.tokens[row][: batch.mask[row].sum()])
        assert words.startswith("[CLS] " + question.text.split()[0].lower())
        assert words.endswith("[SEP]") and words.count("[SEP]") == 2
        found = batch.tokens[row][batch.starts[row] : batch.ends[row] + 1]
        assert bool(question.answers) == (batch.impossible[row] == 0)
        if question.answers:
            true = question.answers[0][0].lower().replace(" ", "")
            assert decoded(folder, found).replace(" ", "") == true
        else:
            assert (batch.starts[row], batch.ends[row]) == (0, 0)


@pytest.mark.parametrize("length", [16, 32, 48])
def test_windows_overlap_and_cover_the_paragraph(folder, length):
    own = squad.Questions(folder / "train.npz", length)
    lengths = np.diff(own.arrays["paragraphs"])[own.arrays["paragraph_of"]]
    for question, tokens in enumerate(lengths):
        rows = own.table[own.table[:, 0] == question]
        begins, ends = rows[:, 1], rows[:, 1] + rows[:, 2]
        assert begins[0] == 0 and ends[-1] == tokens
        assert (begins[1:] < ends[:-1]).all(), "neighbours overlap"
        assert (ends[:-1] < tokens).all(), "the first that reaches the end is the last one"
        assert (rows[:, 2] + rows[:, 3] + 1 <= length).all()
    batch = own.batch(range(len(own.table)))
    assert (batch.tokens[:, 0] == START).all()
    assert ((batch.tokens == SEPARATOR).sum(1) == 2).all()
    piece = np.arange(length) < (own.table[:, 3] + own.table[:, 2])[:, None]
    piece &= np.arange(length) >= own.table[:, 3][:, None]
    assert (
        np.array_equal(batch.allowed[:, 1:] > 0, piece[:, 1:]) and (batch.allowed[:, 0] == 1).all()
    )
    assert np.array_equal(batch.mask.sum(1), own.table[:, 3] + own.table[:, 2] + 1)
    inside = np.take_along_axis(batch.allowed, batch.starts[:, None], 1)
    assert (inside == 1).all() and (batch.ends >= batch.starts).all()


def test_the_standard_sizes_are_those_of_the_recipe():
    assert facts.question_tokens(384) == 64
    assert facts.stride(384 - 64 - 3) == 128


def test_a_question_is_cut_at_its_most_tokens(folder):
    own = squad.Questions(folder / "train.npz", 16)
    assert (own.table[:, 3] - 2).max() == 4


def test_two_ranks_see_together_what_one_sees(folder):
    with opened(folder) as whole:
        batch = whole.next()
    halves = []
    for part in range(2):
        with opened(folder, batch_size=2, part=part, parts=2) as half:
            halves.append(half.next())
    for both, own in zip(batch, zip(*halves, strict=True), strict=True):
        assert np.array_equal(both, np.concatenate(own))


def test_an_epoch_has_every_window_once_and_each_its_own_order(folder):
    with opened(folder, 128, batch_size=8) as batches:
        epochs = [np.concatenate([batches.next().windows for _ in range(6)]) for _ in range(2)]
    assert all(sorted(each) == list(range(48)) for each in epochs)
    assert list(epochs[0]) != list(epochs[1])


def test_tests_have_every_window_once_and_only_on_the_first_rank(folder):
    with opened(folder, 32) as batches:
        tests = batches.tests()
        found = [batch.windows[:own] for batch, own in tests]
        table = squad.Questions(folder / "test.npz", 32).table
        assert list(np.concatenate(found)) == list(range(len(table)))
        assert len(found) == len(tests)
    with opened(folder, 32, part=1, parts=2) as batches:
        assert list(batches.tests()) == []


def perfect(batch: squad.Batch) -> np.ndarray:
    """Outputs of a model that knows the answers of this batch."""
    size, length = batch.tokens.shape
    found = np.full((size, 1 + facts.BEAM, 1 + length), -20.0, np.float32)
    found[:, 0, 0] = np.where(batch.impossible > 0, 5, -5)
    for row in range(size):
        others = [place for place in range(length) if place != batch.starts[row]]
        starts = sorted([batch.starts[row], *others[: facts.BEAM - 1]])
        found[row, 1:, 0] = starts
        found[row, 0, 1 + batch.starts[row]] = -0.1
        found[row, 1 + starts.index(batch.starts[row]), 1 + batch.ends[row]] = -0.1
    return found


@pytest.mark.parametrize("length", [24, 32, 128])
def test_a_model_that_knows_the_answers_scores_all(folder, length):
    with opened(folder, length) as batches:
        kept = [
            facts.kept(perfect(batch)[:own], *(each[:own] for each in batch))
            for batch, own in batches.tests()
        ]
        [known] = batches.known()
    found = answers.predictions(*zip(*kept, strict=True), known, facts.IMPOSSIBLE)
    for context, question in ((known.contexts[known.paragraph_of[q]], q) for q in range(16)):
        assert found[question] in context, "an answer is a piece of its paragraph"
    assert facts.tally(*zip(*kept, strict=True), known) == [16.0, 16.0, 16.0]
    kept[0] = tuple(each[1:] for each in kept[0])
    with pytest.raises(ValueError, match="windows tested, not each of"):
        facts.tally(*zip(*kept, strict=True), known)


def test_the_scenario_judges_by_what_the_loader_knows_of_its_tests(folder):
    with opened(folder, 32) as batches:
        learned = iter([batch for batch, _ in batches.tests()])
        work = SimpleNamespace(evaluate=lambda *_: perfect(next(learned)), batches=batches)
        run = SimpleNamespace(workload="electra_squad")
        sums, count = quality.test(run, work, batches.tests())
        assert sums == [16.0, 16.0, 16.0]
        assert count == facts.DATA["sample"].tests, "questions, not windows"
        # of what it is asked, nothing says where an answer is
        work.evaluate = lambda *arrays: perfect(squad.Batch(*arrays))
        without = sum(not each for each in batches.known()[0].answers)
        assert quality.test(run, work, batches.tests())[0][0] <= max(without, 4)


def test_synthetic_windows_are_full(folder):
    with opened("", 64, data="synthetic", batch_size=64) as batches:
        batch = batches.next()
    assert batch.mask.all() and ((batch.tokens == SEPARATOR).sum(1) == 2).all()
    assert 0.15 < batch.impossible.mean() < 0.5
    assert (np.take_along_axis(batch.allowed, batch.ends[:, None], 1) == 1).all()


DOCUMENT = {
    "version": "v2.0",
    "data": [
        {
            "title": "Rome",
            "paragraphs": [
                {
                    "context": "Rome is old.",
                    "qas": [
                        {
                            "id": "a",
                            "question": "What is old?",
                            "answers": [{"text": "Rome", "answer_start": 0}],
                            "is_impossible": False,
                        },
                        {"id": "b", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
FIRST = ("data", 0, "paragraphs", 0)
BROKEN = [
    ((), [], "the file is no object with 'data'"),
    (("data",), {}, "data is {}, not a list"),
    (("data",), [], "has no question"),
    (("data", 0), 3, "data[0] is no object with 'paragraphs'"),
    ((*FIRST, "context"), None, "data[0].paragraphs[0].context is null, not a text"),
    ((*FIRST, "qas", 0, "id"), "b", "data[0].paragraphs[0].qas[1].id is 'b', as before"),
    ((*FIRST, "qas", 0, "answers"), "Rome", 'qas[0].answers is "Rome", not a list'),
    (
        (*FIRST, "qas", 0, "answers", 0, "answer_start"),
        "0",
        'qas[0].answers[0].answer_start is "0", not a whole number',
    ),
    (
        (*FIRST, "qas", 0, "is_impossible"),
        True,
        "data[0].paragraphs[0].qas[0].is_impossible is True, but it has 1 answers",
    ),
    ((*FIRST, "qas", 0, "is_impossible"), 0, "qas[0].is_impossible is 0, not true or false"),
    ((*FIRST, "context"), "\ud800", 'context is "\\ud800", with half a character'),
]


@pytest.mark.parametrize(("place", "value", "message"), BROKEN)
def test_a_broken_file_is_one_message(tmp_path, place, value, message, capsys):
    document = json.loads(json.dumps(DOCUMENT))
    if place:
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = value
    else:
        document = value
    path = tmp_path / "train.json"
    path.write_text(json.dumps(document))
    with pytest.raises(DataError) as error:
        questions.read(path)
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)


def test_other_files_are_one_message(tmp_path):
    path = tmp_path / "train.json"
    with pytest.raises(DataError, match="no such file"):
        questions.read(path)
    for content in (b'{"data": [', b"\xff\xfe", b"[" * 100_000):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not JSON in UTF-8"):
            questions.read(path)
    del (document := json.loads(json.dumps(DOCUMENT)))["data"][0]["paragraphs"][0]["context"]
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"data\[0\].paragraphs\[0\].context is missing"):
        questions.read(path)


def test_an_answer_that_stands_elsewhere_is_left_out_and_named(tmp_path):
    document = json.loads(json.dumps(DOCUMENT))
    document["data"][0]["paragraphs"][0]["qas"][0]["answers"][0]["answer_start"] = 3
    path = tmp_path / "train.json"
    path.write_text(json.dumps(document))
    made = questions.make(tmp_path / "out", path, path)
    assert made["left_out"] == ["a"]
    assert (made["train_questions"], made["test_questions"]) == (1, 2)
    assert provenance.contents(made).endswith("; 2 to test with, 1 without; 1 left out")


def test_too_few_windows_are_an_error(folder):
    with pytest.raises(DataError, match="48 windows to train on, fewer than the 64"):
        opened(folder, 128, batch_size=64)


def test_another_data_set_is_an_error(tmp_path):
    manifest.finish(tmp_path, "prose", [])
    with pytest.raises(DataError, match="has the data set 'prose', not 'questions'"):
        opened(tmp_path)


def safetensors(path: Path, tensors: dict) -> None:
    """A file in that form, written apart from the reader."""
    header, body = {}, b""
    for name, array in tensors.items():
        whole = array.dtype.kind == "i"
        data = array.astype("<i8" if whole else "<f4").tobytes()
        places = [len(body), len(body) + len(data)]
        kind = "I64" if whole else "F32"
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": places}
        body += data
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.fixture
def published(monkeypatch) -> dict:
    """A small model's tensors, named as huggingface/transformers names them."""
    for name, value in {"VOCABULARY": 40, "WIDTH": 8, "LAYERS": 2, "INNER_WIDTH": 16}.items():
        monkeypatch.setattr(facts, name, value)
    monkeypatch.setattr(facts, "POSITIONS", 12)
    random, own = np.random.default_rng(1), "electra.embeddings."
    shapes = {
        f"{own}word_embeddings.weight": (40, 8),
        f"{own}position_embeddings.weight": (12, 8),
        f"{own}token_type_embeddings.weight": (2, 8),
        f"{own}LayerNorm.weight": (8,),
        f"{own}LayerNorm.bias": (8,),
        "discriminator_predictions.dense.weight": (8, 8),
    }
    for layer in range(2):
        own = f"electra.encoder.layer.{layer}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            shapes[f"{own}attention.{part}.weight"] = (8, 8)
            shapes[f"{own}attention.{part}.bias"] = (8,)
        shapes[f"{own}intermediate.dense.weight"] = (16, 8)
        shapes[f"{own}intermediate.dense.bias"] = (16,)
        shapes[f"{own}output.dense.weight"] = (8, 16)
        shapes[f"{own}output.dense.bias"] = (8,)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"{own}{norm}.weight"] = shapes[f"{own}{norm}.bias"] = (8,)
    found = {name: random.standard_normal(shape) for name, shape in shapes.items()}
    return {**found, "electra.embeddings.position_ids": np.arange(12)}


def test_training_starts_from_a_published_checkpoint(published, tmp_path):
    safetensors(tmp_path / "model.safetensors", published)
    arguments = ["--out", str(tmp_path / "data"), "--weights", str(tmp_path / "model.safetensors")]
    arguments += ["--workload", "electra_squad"]
    questions.main(arguments)
    started = workloads.Initial("electra_squad", {}, 1, str(tmp_path / "data"))
    query = published["electra.encoder.layer.1.attention.self.query.weight"]
    assert np.array_equal(started["layer1.qkv.weight"][:8], query.astype("float32"))
    norm = published["electra.encoder.layer.0.output.LayerNorm.bias"]
    assert np.array_equal(started["layer0.norm2.bias"], norm.astype("float32"))
    for name, tensor in facts.parameters({}).items():
        assert started[name].shape == tensor.shape and started[name].dtype == np.float32
    random = workloads.Initial("electra_squad", {}, 1)
    assert np.array_equal(started["start.weight"], random["start.weight"]), (
        "heads are from the seed"
    )
    assert not np.array_equal(started["word_embedding"], random["word_embedding"])
    made = json.loads((tmp_path / "data/manifest.json").read_text())
    digest = sha256_of_file(tmp_path / "model.safetensors")
    with opened(tmp_path / "data") as batches:
        assert batches.parity["initial_weights"] == f"released, sha256 {digest}"
    assert made["weights"]["sha256"] == digest

    questions.main(arguments[:2])  # made again without them
    started = workloads.Initial("electra_squad", {}, 1, str(tmp_path / "data"))
    assert np.array_equal(started["word_embedding"], random["word_embedding"])
    with opened(tmp_path / "data") as batches:
        assert batches.parity["initial_weights"] == "random, from the seed"


def test_a_checkpoint_that_does_not_fit_is_one_message(published, tmp_path):
    path, name = tmp_path / "model.safetensors", "electra.encoder.layer.1.output.dense.bias"
    for changed, message in (
        ({**published, name: np.zeros(7)}, "layer1.ffn2.bias the shape (7,), not (8,)"),
        ({**published, name: np.arange(8)}, f"no tensor {name} of type F32, F16, F64"),
        ({**published, name: np.full(8, np.nan)}, f"{name} has values that are not finite"),
        ({key: each for key, each in published.items() if key != name}, f"no tensor {name}"),
    ):
        safetensors(path, changed)
        with pytest.raises(DataError) as error:
            checkpoint.convert(path, tmp_path / "weights.npz", facts)
        assert message in str(error.value)
    safetensors(path, published)
    whole = path.read_bytes()
    for content in (
        b"",
        whole[:100],
        whole[:-8],
        b"\x80\x02" + whole,
        struct.pack("<Q", 2) + b"[]",
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match="not a safetensors file"):
            checkpoint.convert(path, tmp_path / "weights.npz", facts)
