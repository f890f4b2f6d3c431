"""Corpora of token ids: both forms are read alike, and what is wrong with one is said."""

import numpy as np
import pytest
from token_corpora import flat, megatron

from dlperf.contract.run import Input
from dlperf.loaders import DataError, token_files
from dlperf.loaders.token_files import check_whole, mapped
from dlperf.prepare import manifest

TOKENS = 4000


class Windows(token_files.Tokens):
    """A workload whose batch is the sequences themselves."""

    def _batch(self, sequences):
        return (sequences,)

    def _noise(self):
        size = self._input.batch_size
        return (np.full((size, self._length), -1, np.int32),)


def written(folder, **facts):
    """The folder's manifest, of the files that are there."""
    names = [name for name in ("tokens.bin", "tokens.idx") if (folder / name).exists()]
    manifest.finish(folder, "tokens", manifest.listed(folder, names), **facts)
    return folder


@pytest.fixture
def folder(tmp_path):
    flat(tmp_path, range(TOKENS))
    return written(tmp_path)


def opened(folder, batch_size=8, part=0, parts=1, length=15, vocabulary=TOKENS, tests=0, **changes):
    asked = {"seed": 1, "batches": 3, **changes}
    input = Input(
        workload="gpt",
        data="tokens",
        data_dir=str(folder),
        batch_size=batch_size,
        dimensions={"sequence_length": length},
        part=part,
        parts=parts,
        **asked,
    )
    return Windows(input, vocabulary, 4 * batch_size * (length + 1), tests=tests)


def first(folder, *arguments, **changes):
    with opened(folder, *arguments, **changes) as batches:
        return batches.next()[0]


# Both forms


@pytest.mark.parametrize("code", [8, 4])
def test_the_forms_of_megatron_and_nanogpt_give_the_same_batches(folder, tmp_path, code):
    other = tmp_path / "megatron"
    other.mkdir()
    file = mapped(str(megatron(other, [1000, 2500, 500], code)))
    assert file.tokens.dtype.itemsize == {8: 2, 4: 4}[code]
    assert list(file.index.lengths) == [1000, 2500, 500]
    assert list(file.index.documents) == [0, 1, 2, 3]
    assert check_whole(file, TOKENS) == TOKENS - 1
    assert np.array_equal(first(folder), first(written(other)))


def test_a_file_is_mapped_and_not_loaded(folder):
    assert isinstance(mapped(str(folder / "tokens.bin")).tokens, np.memmap)


# What is drawn


def test_a_sample_is_so_many_tokens_in_a_row_and_one_more(folder):
    batch = first(folder, 64)
    assert batch.shape == (64, 16) and batch.dtype == np.int32
    assert (np.diff(batch) == 1).all(), "the corpus counts"
    assert batch.min() >= 0 and batch.max() < TOKENS


def test_ranks_share_the_batch_that_one_rank_sees(folder):
    def three(*arguments):
        with opened(folder, *arguments) as batches:
            return [batches.next()[0] for _ in range(3)]

    for whole, *parts in zip(three(16), three(8, 0, 2), three(8, 1, 2), strict=True):
        assert np.array_equal(whole, np.concatenate(parts))


def test_a_seed_gives_the_same_samples_and_another_one_others(folder):
    assert np.array_equal(first(folder), first(folder))
    assert not np.array_equal(first(folder), first(folder, seed=2))


def test_samples_begin_at_every_place_and_the_last_one_fits(tmp_path):
    flat(tmp_path, range(20))
    starts = first(written(tmp_path), 400)[:, 0]
    assert set(starts) == set(range(5))


def test_a_corpus_of_just_one_sample_is_enough(tmp_path):
    flat(tmp_path, range(16))
    assert np.array_equal(first(written(tmp_path), 1)[0], np.arange(16))


def test_noise_comes_before_a_training_to_a_quality(folder):
    with opened(folder, warmup=2, batches=5) as batches:
        assert all((batches.next()[0] == -1).all() for _ in range(2))
        batches.begin()
        assert (batches.next()[0] >= 0).all()
        assert batches.first_batch_sha256


# What is held out


def test_the_last_part_is_tested_with_and_not_trained_on(folder):
    with opened(folder, 512, held_out=True, tests=10) as batches:
        trained = batches.next()[0]
        tests = np.concatenate([batch[:count] for (batch,), count in batches.tests()])
    assert trained.max() < 3800
    assert tests.shape == (10, 16) and (np.diff(tests) == 1).all()
    assert tests.min() == 3800 and tests.max() == TOKENS - 1, "all of it is used"
    assert first(folder, 512).max() >= 3800, "a throughput run reads all"


def test_tests_are_the_same_for_every_seed_and_parts_share_them(folder):
    def tests(**changes):
        with opened(folder, held_out=True, tests=10, **changes) as batches:
            return np.concatenate([batch[:count] for (batch,), count in batches.tests()])

    assert np.array_equal(tests(seed=1), tests(seed=2))
    parts = [tests(batch_size=4, part=part, parts=2) for part in (0, 1)]
    assert np.array_equal(tests(), np.concatenate(parts))


def test_a_single_test_is_possible(folder):
    with opened(folder, held_out=True, tests=1) as batches:
        (((batch,), count),) = batches.tests()
    assert count == 1 and batch[0, 0] == 3800


# What is refused


def refusal(action, *arguments, **changes):
    with pytest.raises(DataError) as caught:
        action(*arguments, **changes)
    return str(caught.value)


def test_a_missing_file(tmp_path):
    path = tmp_path / "none.bin"
    message = refusal(mapped, str(path))
    assert message.startswith(f"{path}: no such file; it holds token ids, in Megatron-LM's form")
    assert "tokens.bin: no such file" in refusal(opened, written(tmp_path))


def test_no_folder_and_one_without_a_manifest(tmp_path):
    assert "settings key 'data_dir' is empty" in refusal(opened, "")
    assert "manifest.json: no such file" in refusal(opened, tmp_path)


def test_an_index_of_another_kind(tmp_path):
    path = megatron(tmp_path, [100], magic=b"TNTIDX\x00\x00\x00")
    message = refusal(mapped, str(path))
    assert "tokens.idx: begins with b'TNTIDX\\x00\\x00\\x00'; an index of Megatron-LM" in message
    assert "preprocess_data.py, or remove the index if the .bin is flat uint16" in message
    (tmp_path / "tokens.idx").write_bytes(b"MMIDIDX\x00\x00\x01")
    assert "tokens.idx: begins with" in refusal(mapped, str(path))


def test_an_index_of_another_version(tmp_path):
    path = megatron(tmp_path, [100], version=2)
    assert "tokens.idx: is of version 2; version 1 is needed" in refusal(mapped, str(path))


@pytest.mark.parametrize("code", [0, 5, 9])
def test_an_index_of_another_type(tmp_path, code):
    path = megatron(tmp_path, [100], written_code=code)
    message = refusal(mapped, str(path))
    assert f"tokens.idx: has the type code {code}; " in message
    assert "the types of token ids are 8 (uint16), 4 (int32)" in message


def test_an_index_that_is_cut_short(tmp_path):
    path = megatron(tmp_path, [100, 50])
    index = (tmp_path / "tokens.idx").read_bytes()
    (tmp_path / "tokens.idx").write_bytes(index[:-3])
    message = refusal(mapped, str(path))
    assert f"has {len(index) - 3} bytes; {len(index)} are needed for the 2 sequences" in message


def test_an_index_whose_file_has_another_size(tmp_path):
    path = megatron(tmp_path, [100, 50])
    path.write_bytes(path.read_bytes()[:-2])
    message = refusal(mapped, str(path))
    assert f"{path}: has 298 bytes; {tmp_path}/tokens.idx says 300: one of the two" in message
    megatron(tmp_path, [])
    flat(tmp_path, range(10))
    assert "has 20 bytes; " in refusal(mapped, str(path))


def test_an_index_whose_sequences_have_gaps(tmp_path):
    path = megatron(tmp_path, [100, 50, 30], offsets=[0, 210, 300])
    message = refusal(check_whole, mapped(str(path)), 1000)
    assert "tokens.idx: sequence 1 has 50 tokens and begins at byte 210; " in message
    assert "the sequences before it end at byte 200" in message
    path = megatron(tmp_path, [100, -20, 100], offsets=[0, 200, 160])
    assert "sequence 1 has -20 tokens" in refusal(check_whole, mapped(str(path)), 1000)


@pytest.mark.parametrize("documents", [[], [0], [0, 3, 2], [1, 2, 3], [0, 4]])
def test_an_index_whose_documents_are_not_its_sequences(tmp_path, documents):
    path = megatron(tmp_path, [10, 20, 30], documents=documents)
    message = refusal(check_whole, mapped(str(path)), 1000)
    assert "its documents do not begin with sequence 0 and end with the last of 3" in message


def test_a_file_that_is_no_whole_number_of_tokens(tmp_path):
    path = tmp_path / "tokens.bin"
    path.write_bytes(b"\1" * 101)
    message = refusal(mapped, str(path))
    assert f"{path}: has 101 bytes, which is no multiple of the 2 of a token (uint16)" in message


@pytest.mark.parametrize("tokens", [0, 15])
def test_too_few_tokens_for_a_sample(tmp_path, tokens):
    flat(tmp_path, range(tokens))
    message = refusal(opened, written(tmp_path))
    assert f"tokens.bin: has {tokens} tokens; a sample takes 16 (sequence_length + 1)" in message
    assert "ask for a shorter sequence_length, or take a larger corpus" in message


def test_too_few_tokens_to_test_with(tmp_path):
    flat(tmp_path, range(300))
    message = refusal(opened, written(tmp_path), held_out=True, tests=4)
    assert "has 15 tokens to test with (the last 5 %); a sample takes 16" in message


@pytest.mark.parametrize("vocabulary", [3999, 100])
def test_a_token_that_is_not_in_the_vocabulary(folder, vocabulary):
    message = refusal(check_whole, mapped(str(folder / "tokens.bin")), vocabulary)
    assert (
        f"tokens.bin: token {vocabulary} is {vocabulary}; ids of 0 to {vocabulary - 1}" in message
    )


def test_a_negative_token(tmp_path):
    path = megatron(tmp_path, [100], 4)
    tokens = np.fromfile(path, np.int32)
    tokens[7] = -5
    tokens.tofile(path)
    assert "token 7 is -5; ids of 0 to 999" in refusal(check_whole, mapped(str(path)), 1000)


def test_a_token_in_a_later_part_of_a_large_file(folder, monkeypatch):
    monkeypatch.setattr(token_files, "CHUNK", 1000)
    file = mapped(str(folder / "tokens.bin"))
    assert check_whole(file, TOKENS) == 3999
    assert "token 3500 is 3500" in refusal(check_whole, file, 3500)


def test_a_vocabulary_larger_than_the_type_of_the_tokens(folder):
    assert check_whole(mapped(str(folder / "tokens.bin")), 100_000) == 3999


def test_each_batch_is_looked_at_too(folder):
    """The file may have changed since it was prepared."""
    with opened(folder, 64, vocabulary=100) as batches:
        message = refusal(batches.next)
    assert "tokens.bin: token " in message and "ids of 0 to 99 are needed" in message


def test_a_corpus_of_a_larger_vocabulary_is_refused_before_the_first_batch(folder):
    written(folder, largest_token=3999)
    message = refusal(opened, folder, vocabulary=2000)
    assert "manifest.json: has the token 3999; the model's vocabulary has 2000 entries" in message


def test_a_file_that_changed_since_it_was_prepared(folder):
    flat(folder, range(TOKENS - 1))
    assert "tokens.bin: has 7998 bytes, 8000 in " in refusal(opened, folder)
