"""Batches are what a plain, slow program says of the files, late ones too; wrong ones are found."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plain_inputs as plain
import pytest

from dlperf import workloads
from dlperf.contract.dimension import Dimensions
from dlperf.contract.run import Input
from dlperf.loaders import images, text
from dlperf.loaders.manifest import sha256_of_listing
from dlperf.prepare import criteo, criteo_sample, faces_sample, prose, prose_tokens, sample
from dlperf.workloads import inputs
from dlperf.workloads.bert import facts as bert
from dlperf.workloads.electra import facts as electra

#: Drawn anew each time: a loader cannot know which batches are looked at.
SEED = random.SystemRandom().randrange(2**31)
SIZE = 48
BERTS = {"mask": 0.8, "other": 0.1, "own": 0.1}
ELECTRAS = {"mask": 0.85, "other": 0.0, "own": 0.15}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function: the folder of a kind of data, made when it is asked for first."""
    root, made = tmp_path_factory.mktemp("data"), dict[str, Path]()

    def folder(name: str) -> Path:
        if name not in made:
            out = made[name] = root / name
            if name == "sample":
                sample.make(out, 4, 1)
            elif name == "ramps":
                listed(plain.write_ramps(out), out)
            elif name == "prose":
                prose.make(out)
            elif name == "prose-tokens":
                prose_tokens.make(out)
            elif name == "faces":
                faces_sample.make(out, identities=6, pictures=20)
            else:
                criteo_sample.make(root / "criteo", rows=6000)
                criteo.make(out, root / "criteo", count=3, jobs=1)
        return made[name]

    return folder


def listed(paths: list[Path], folder: Path) -> None:
    """Write a manifest of labelled pictures."""
    files = [
        {
            "path": str(path.relative_to(folder)),
            "label": label,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "bytes": path.stat().st_size,
        }
        for label, path in enumerate(paths)
    ]
    about = {"schema": "dlperf.data/1", "dataset": "sample", "classes": len(files)}
    document = {**about, "sha256": sha256_of_listing(files), "files": files}
    (folder / "manifest.json").write_text(json.dumps(document))


def opened(workload: str, folder: Path, size: int, **dimensions: Any) -> Any:
    """The loader's batches of a workload."""
    own = dict(Dimensions(workloads.dimensions(workload), dimensions))
    asked = Input(workload, "sample", str(folder), size, own, SEED)
    kind = workloads.data(workload)["sample"]
    return inputs.loader(workload, "sample").open_batches(asked._replace(kind=kind), prefetch=1)


def read(batches: Any, numbers: list[int]) -> plain.Batches:
    """The batches of these numbers, from 1."""
    found = {}
    with batches:
        for number in range(1, max(numbers) + 1):
            batch = batches.next()
            if number in numbers:
                found[number] = tuple(np.array(each) for each in batch)
    return found


def late(first: int, last: int, count: int) -> list[int]:
    """Batch 1, 7, the last, and drawn ones between."""
    return sorted({1, 7, last, *random.SystemRandom().sample(range(first, last), count)})


def photographs(folder: Path) -> list[str]:
    numbers = late(2, 60, 3)  # ten batches of 8 an epoch
    batches = read(opened("resnet50", folder, 8, image_size=SIZE), numbers)
    return list(plain.photographs(batches, folder, SIZE, SEED))


def ramps(folder: Path) -> list[str]:
    batches = read(opened("resnet50", folder, 8, image_size=SIZE), list(range(1, 61)))
    rows = np.concatenate([plain.measured(pictures) for pictures, _ in batches.values()])
    return plain.ramps(rows, np.concatenate([labels for _, labels in batches.values()]), 8)


def of_bert(folder: Path) -> list[str]:
    batches = read(opened("bert", folder, 16, sequence_length=64), late(2, 50, 8))
    most = bert.masked_positions(64)
    return plain.masked_text(batches, folder, most, BERTS, has_order=True)


def of_electra(folder: Path) -> list[str]:
    batches = read(opened("electra", folder, 16, sequence_length=64), late(2, 50, 8))
    most = electra.masked_positions(64)
    return plain.masked_text(batches, folder, most, ELECTRAS, has_order=False)


def of_gpt(folder: Path) -> list[str]:
    batches = read(opened("gpt", folder, 16, sequence_length=64), late(2, 50, 8))
    return plain.token_windows(batches, folder)


def of_wide_deep(folder: Path) -> list[str]:
    batches = read(opened("wide_deep", folder, 64, vocabulary=15_600), late(2, 50, 8))
    return plain.clicks(batches, folder)


def of_faces(folder: Path) -> list[str]:
    # ten batches an epoch
    batches = read(opened("insightface", folder, 12, num_classes=24, image_size=96), [1, 2, 7, 10])
    return plain.faces(batches, folder, 96, 24)


HONEST: dict[Callable[[Path], list[str]], str] = {
    photographs: "sample",
    ramps: "ramps",
    of_bert: "prose",
    of_electra: "prose",
    of_gpt: "prose-tokens",
    of_wide_deep: "clicks",
    of_faces: "faces",
}


def named(given: Any) -> str:
    return given if isinstance(given, str) else str(given.__name__)


@pytest.mark.parametrize("check", HONEST, ids=named)
def test_batches_are_what_the_files_and_the_rules_say(folders, check):
    assert check(folders(HONEST[check])) == []


# Wrong loaders: a change of what is done to each batch, or of the loader's own functions.


def changed(monkeypatch: pytest.MonkeyPatch, change: Callable[[int, tuple], Any]) -> None:
    """Let `change` have each batch, by its number, before it is looked at."""
    honest = read

    def wrong(batches: Any, numbers: list[int]) -> plain.Batches:
        kept: dict[int, tuple] = {}
        every = honest(batches, list(range(1, max(numbers) + 1)))
        for number, batch in every.items():
            kept[number] = tuple(change(number, batch))
        return {number: kept[number] for number in numbers}

    monkeypatch.setitem(globals(), "read", wrong)


def no_flip(patch: pytest.MonkeyPatch) -> None:
    honest = images.decode

    def decode(pillow: Any, path: str, size: int, dice: Any) -> Any:
        state = dice.get_state()
        width, height = pillow.open(path).size
        images.crop_box(width, height, dice)
        flipped = dice.random_sample() < 0.5
        dice.set_state(state)
        pixels = honest(pillow, path, size, dice)
        return pixels[:, ::-1] if flipped else pixels

    patch.setattr(images, "decode", decode)


def central_crop(patch: pytest.MonkeyPatch) -> None:
    honest = images.crop_box

    def box(width: int, height: int, dice: Any) -> Any:
        _, _, w, h = honest(width, height, dice)
        return (width - w) // 2, (height - h) // 2, w, h

    patch.setattr(images, "crop_box", box)


def whole_picture(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(images, "crop_box", lambda width, height, dice: (0, 0, width, height))


def larger_crops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(images, "CROP_AREA", (0.35, 1.0))


def other_mean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(images, "MEAN", images.MEAN * np.float32(1.02))


def no_deviation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(images, "SCALE", np.full(3, 1 / 64, np.float32))


def less_after_the_first(number: int, batch: tuple) -> Any:
    pictures, labels = batch
    return (pictures if number == 1 else pictures[:, :, ::-1][:, ::-1]), labels


def stripes_after_the_fifth(number: int, batch: tuple) -> Any:
    pictures, labels = batch
    if number > 5:
        pictures = pictures.copy()
        pictures[:, 1::2] = pictures[:, ::2]
    return pictures, labels


def blue_first(number: int, batch: tuple) -> Any:
    return batch[0][..., ::-1], batch[1]


def labels_by_one(number: int, batch: tuple) -> Any:
    return batch[0], np.roll(batch[1], 1)


def one_file(number: int, batch: tuple) -> Any:
    return tuple(np.repeat(each[:1], len(each), 0) for each in batch)


def the_first_again(seen: dict[int, tuple]) -> Callable[[int, tuple], Any]:
    """From the sixth batch on the first ones come again."""

    def change(number: int, batch: tuple) -> Any:
        seen[number] = batch
        return seen[(number - 1) % 5 + 1]

    return change


PATCHES = [no_flip, central_crop, whole_picture, larger_crops, other_mean, no_deviation]
CHANGES = [less_after_the_first, stripes_after_the_fifth, blue_first, labels_by_one, one_file]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        *((photographs, each) for each in (*PATCHES, *CHANGES, "again")),
        # a ramp whose rows are doubled is nearly the same ramp
        *(
            (ramps, each)
            for each in (*PATCHES, *CHANGES, "again")
            if each != stripes_after_the_fifth
        ),
    ],
    ids=named,
)
def test_wrong_pictures_are_found(folders, monkeypatch, check, wrong):
    if wrong in PATCHES:
        wrong(monkeypatch)
    else:
        changed(monkeypatch, the_first_again({}) if wrong == "again" else wrong)
    found = check(folders(HONEST[check]))
    print(found[:3])
    assert found


# Text and tokens


def shifted_labels(number: int, batch: tuple) -> Any:
    return (*batch[:4], np.roll(batch[4], 1, 1), *batch[5:])


def a_fifth_fewer_places(number: int, batch: tuple) -> Any:
    used = batch[5].copy()
    used[:, -2:] = 0
    return (*batch[:5], used, *batch[6:])


def unhidden_later(number: int, batch: tuple) -> Any:
    if number == 1:
        return batch
    tokens = batch[0].copy()
    for row, places in enumerate(batch[3]):
        here = batch[5][row] > 0
        tokens[row, places[here]] = batch[4][row][here]
    return (tokens, *batch[1:])


def cut_off(number: int, batch: tuple) -> Any:
    tokens, mask = batch[0].copy(), batch[2].copy()
    tokens[:, 48:], mask[:, 48:] = 0, 0
    return (tokens, batch[1], mask, *batch[3:])


def ten_percent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(text, "PREDICTED", 0.10)


def one_document(patch: pytest.MonkeyPatch) -> None:
    from dlperf.workloads.electra import input as electra_input

    def repeating(honest: Any) -> Any:
        def batches(self: Any) -> Any:
            made = honest(self)
            first = [next(made) for _ in range(3)]
            while True:
                yield from first

        return batches

    for reader in (text.Prose, electra_input.Prose):
        patch.setattr(reader, "_batches", repeating(reader._batches))


def never_another_word(patch: pytest.MonkeyPatch) -> None:
    from dlperf.workloads.bert import input as bert_input

    honest = text.hide

    def hide(tokens: Any, candidates: Any, places: int, dice: Any) -> Any:
        chosen, labels = honest(tokens, candidates, places, dice)
        tokens[chosen] = text.MASK
        return chosen, labels

    patch.setattr(bert_input, "hide", hide)


def first_words(patch: pytest.MonkeyPatch) -> None:
    from dlperf.workloads.bert import input as bert_input

    honest = text.hide
    patch.setattr(
        bert_input,
        "hide",
        lambda tokens, candidates, places, dice: honest(
            tokens, candidates[: max(places, 10)], places, dice
        ),
    )


TEXTS = [shifted_labels, a_fifth_fewer_places, unhidden_later, cut_off, one_file]
TEXT_PATCHES = [ten_percent, one_document]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        *((check, each) for check in (of_bert, of_electra) for each in TEXTS + TEXT_PATCHES),
        (of_bert, never_another_word),
        (of_bert, first_words),
    ],
    ids=named,
)
def test_wrong_sequences_are_found(folders, monkeypatch, check, wrong):
    if wrong in TEXTS:
        changed(monkeypatch, wrong)
    else:
        wrong(monkeypatch)
    found = check(folders("prose"))
    print(found[:3])
    assert found


def same_labels(number: int, batch: tuple) -> Any:
    return batch[0], batch[0]


def two_places_later(number: int, batch: tuple) -> Any:
    return batch[0][:, :-1], batch[1][:, 1:]


def of_the_first_batch(number: int, batch: tuple, seen: list = []) -> Any:  # noqa: B006
    if number == 1:
        seen[:] = [batch]
    return seen[0]


def other_rows_labels(number: int, batch: tuple) -> Any:
    return (*batch[:3], np.roll(batch[3], 1))


def ids_of_another_column(number: int, batch: tuple) -> Any:
    return (*batch[:2], np.roll(batch[2], 1, 1), batch[3])


def numbers_left_out_later(number: int, batch: tuple) -> Any:
    return batch if number < 3 else (batch[0] * 0, *batch[1:])


def one_in_255(number: int, batch: tuple) -> Any:
    return batch[0] * np.float32(128 / 127.5), batch[1]


def shifted_a_pixel(number: int, batch: tuple) -> Any:
    return np.roll(batch[0], 1, 1), batch[1]


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        *((of_gpt, each) for each in (same_labels, two_places_later, of_the_first_batch, one_file)),
        *((of_wide_deep, each) for each in (other_rows_labels, ids_of_another_column)),
        *((of_wide_deep, each) for each in (numbers_left_out_later, of_the_first_batch, one_file)),
        *((of_faces, each) for each in (labels_by_one, one_in_255, shifted_a_pixel, one_file)),
        *((of_faces, each) for each in (of_the_first_batch, blue_first)),
    ],
    ids=named,
)
def test_wrong_rows_are_found(folders, monkeypatch, check, wrong):
    changed(monkeypatch, wrong)
    found = check(folders(HONEST[check]))
    print(found[:3])
    assert found


def test_faces_that_are_never_flipped_are_found(folders, monkeypatch):
    from dlperf.workloads.insightface import input as faces

    honest = np.random.RandomState
    monkeypatch.setattr(faces.np.random, "RandomState", lambda *given: Never(honest(*given)))
    assert any("flips" in each for each in of_faces(folders("faces")))


class Never:
    """Random numbers by which nothing is flipped."""

    def __init__(self, random: np.random.RandomState) -> None:
        self._random = random

    def random_sample(self, *given: Any) -> Any:
        return self._random.random_sample(*given) if given else 0.9

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random, name)
