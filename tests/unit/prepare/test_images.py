"""Images become the same samples in every format, and what is no image is counted, never silent."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from conftest import ROOT
from PIL import Image

from dlperf.analysis.report import provenance
from dlperf.loaders.manifest import DataError
from dlperf.prepare import sample, shards
from dlperf.prepare.formats import tfrecord
from dlperf.prepare.images import archive, jpeg, prepare
from dlperf.prepare.images.__main__ import main

OWN = ("folders", "tfrecord", "recordio", "ofrecord", "webdataset")  # written without a framework
SHARDS = 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "sample"
    sample.make(folder, images_per_class=2)
    return folder


@pytest.fixture(scope="module")
def tar(folders) -> Path:
    """The same images as ImageNet's training set is published: a tar of class tars."""
    path = folders.parent / "ILSVRC2012_img_train.tar"
    with tarfile.open(path, "w") as outer:
        for folder in sorted(path for path in folders.iterdir() if path.is_dir()):
            inner = folders.parent / f"{folder.name}.tar"
            with tarfile.open(inner, "w") as archive:
                for image in sorted(folder.iterdir()):
                    archive.add(image, image.name)
            outer.add(inner, inner.name)
    return path


def made(source: Path, out: Path, format="tfrecord", count=SHARDS, jobs=1, seed=1) -> dict:
    return prepare.make(archive.index(source), format, out, count, {}, jobs, seed)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# The same samples


def test_every_format_holds_the_same_samples_in_the_same_order(folders, tmp_path):
    digests = set()
    for format in OWN:
        manifest = made(folders, tmp_path / format, format)
        assert manifest["samples"] == 40 and len(manifest["problems"]) == 0
        digests |= {manifest["samples_sha256"], shards.digest(tmp_path / format, manifest)}
    assert len(digests) == 1


def test_the_downloaded_archive_is_read_without_unpacking_it(folders, tar, tmp_path):
    index = archive.index(tar)
    assert len(index) == 40 and len(index.classes) == 20
    for number in (0, 7, 39):
        entry = index[number]
        assert archive.read(entry) == (folders / entry.folder / entry.name).read_bytes()
        assert index.classes[entry.label] == entry.folder


def test_a_manifest_says_the_labels_of_class_folders_and_else_their_order(folders, tar):
    listed = json.loads((folders / "manifest.json").read_text())["files"]
    labels = {file["path"]: file["label"] for file in listed}
    index = archive.index(folders)
    for number in range(len(index)):
        entry = index[number]
        assert entry.label == labels[f"{entry.folder}/{entry.name}"]
    assert [archive.index(tar)[number].label for number in range(0, 40, 2)] == list(range(20))


@pytest.mark.parametrize("format", OWN)
def test_two_processes_make_the_bytes_that_one_makes(folders, tmp_path, format):
    made(folders, tmp_path / "one", format, jobs=1)
    made(folders, tmp_path / "two", format, jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_another_seed_makes_another_order_and_a_validation_set_keeps_its_own(folders, tmp_path):
    one, two, three = (
        made(folders, tmp_path / str(seed), seed=seed)["samples_sha256"] for seed in (1, 2, None)
    )
    assert len({one, two, three}) == 3
    index = archive.index(folders)
    assert list(prepare.stretch(len(index), 1, None, 0)) == list(range(40))


def test_a_validation_set_is_a_tar_of_images_and_a_file_of_classes(folders, tmp_path):
    path, labels = tmp_path / "ILSVRC2012_img_val.tar", tmp_path / "labels.txt"
    names = {"val_1.JPEG": "n00000053", "val_2.JPEG": "n00000000", "val_3.JPEG": "n00000053"}
    with tarfile.open(path, "w") as flat:
        for name, folder in names.items():
            flat.add(next((folders / folder).iterdir()), name)
    labels.write_text("".join(f"{name} {folder}\n" for name, folder in names.items()))
    index = archive.index(path, labels)
    assert [index[number].label for number in range(3)] == [1, 0, 1]
    labels.write_text("val_1.JPEG n00000053\n")
    with pytest.raises(DataError, match=r"labels.txt: has no line for val_2.JPEG"):
        archive.index(path, labels)
    with pytest.raises(DataError, match="--labels"):
        archive.index(path)


def test_the_index_beside_a_tfrecord_says_where_each_record_is(folders, tmp_path):
    made(folders, tmp_path, count=1)
    whole = tmp_path / "00000-of-00001.tfrecord"
    lines = [line.split() for line in whole.with_suffix(".idx").read_text().splitlines()]
    assert len(lines) == 40
    samples = list(tfrecord.read(whole))
    for number in (0, 13, 39):
        start, size = map(int, lines[number])
        part = tmp_path / "part.tfrecord"
        part.write_bytes(whole.read_bytes()[start : start + size])
        assert list(tfrecord.read(part)) == [samples[number]]
    assert sum(int(size) for _, size in lines) == whole.stat().st_size


# Stops


def test_a_run_that_was_killed_goes_on_and_gives_the_same_bytes(folders, tmp_path):
    made(folders, tmp_path / "whole", count=40)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "dlperf.prepare.images", "--source", folders, "--out", out]
    command += ["--format", "tfrecord", "--shards", "40", "--jobs", "1", "--dataset", "x"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    process = subprocess.Popen(command, env=environ, start_new_session=True)
    while len(list((out / ".shards").glob("*.json"))) < 3 and process.poll() is None:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    assert 3 <= len(left) < 40 and not (out / "manifest.json").exists()

    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    noted = [name for name, stamp in left.items() if kept[name] == stamp]
    assert len(noted) >= 3  # one may have been moved, and not noted yet
    shard = {path.name: path.read_bytes() for path in out.glob("*.tfrecord")}
    assert shard == {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("*.tf*")}


def test_a_shard_that_changed_or_has_other_settings_is_made_again(folders, tmp_path):
    index = archive.index(folders)
    written = []

    def write(number, path):
        written.append(number)
        return prepare.write_shard(index, "tfrecord", SHARDS, 1, number, path)

    kept, key = tmp_path / ".shards", "one"
    kept.mkdir()
    for number in range(SHARDS):
        shards.make_one(tmp_path, kept, key, write, number, f"{number}.tfrecord")
    (tmp_path / "1.tfrecord").write_bytes(b"changed")
    assert shards.finished(tmp_path, kept, "0.tfrecord", key)
    assert not shards.finished(tmp_path, kept, "1.tfrecord", key)
    assert not shards.finished(tmp_path, kept, "2.tfrecord", "another")


# Bad input


def jpeg_of(mode="RGB", size=(64, 48), format="JPEG") -> bytes:
    stream = io.BytesIO()
    Image.effect_noise(size, 50).convert(mode).save(stream, format)
    return stream.getvalue()


def bombed(content: bytes) -> bytes:
    """The same JPEG, whose frame says 65535 x 65535 pixels."""
    place = content.index(b"\xff\xc0") + 5
    return content[:place] + b"\xff\xff\xff\xff" + content[place + 4 :]


BAD = {
    "empty.JPEG": (b"", "empty file"),
    "text.JPEG": (b"<html>not found</html>", "no JPEG image"),
    "cut.JPEG": (jpeg_of()[:-200], "truncated JPEG"),
    "head.JPEG": (jpeg_of()[:100], "truncated JPEG"),
    "bomb.JPEG": (bombed(jpeg_of()), f"more than {jpeg.MOST_PIXELS} pixels"),
    "garbage.JPEG": (jpeg_of()[:20] + bytes(500), "broken JPEG"),
    "cut_png.JPEG": (jpeg_of(format="PNG")[:-500], "broken PNG"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_image_is_left_out(name):
    content, reason = BAD[name]
    with pytest.raises(jpeg.NoImage, match=f"^{reason}$"):
        jpeg.checked(content)


def test_cmyk_and_png_become_rgb_jpeg_and_what_is_right_is_not_touched():
    for content, how in (
        (jpeg_of("CMYK"), "CMYK encoded as RGB"),
        (jpeg_of(format="PNG"), "PNG encoded as JPEG"),
    ):
        repaired, width, height, said = jpeg.checked(content)
        assert (width, height, said) == (64, 48, how)
        with Image.open(io.BytesIO(repaired)) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (64, 48))
    for content in (jpeg_of(), jpeg_of("L"), jpeg_of() + b"trailing"):
        assert jpeg.checked(content) == (content, 64, 48, "")


def test_the_manifest_counts_and_names_what_was_left_out_or_repaired(tmp_path):
    source = tmp_path / "source"
    for folder in ("n00000001", "n00000002"):
        (source / folder).mkdir(parents=True)
        (source / folder / "good.JPEG").write_bytes(jpeg_of())
    for name, (content, _) in BAD.items():
        (source / "n00000001" / name).write_bytes(content)
    (source / "n00000002" / "cmyk.JPEG").write_bytes(jpeg_of("CMYK"))
    (source / "n00000002" / "link.JPEG").symlink_to("/etc/passwd")
    (source / "n00000002" / "a name.JPEG").write_bytes(jpeg_of())
    manifest = made(source, tmp_path / "out")
    assert manifest["samples"] == 3
    assert manifest["repaired"] == {"CMYK encoded as RGB": 1}
    assert sum(manifest["skipped"].values()) == len(BAD) + 2
    assert manifest["skipped"]["a link or no regular file"] == 1
    assert manifest["skipped"]["truncated JPEG"] == 2
    named = {problem["sample"]: problem for problem in manifest["problems"]}
    assert named["n00000001/text.JPEG"]["skipped"] == "no JPEG image"
    assert named["n00000002/cmyk.JPEG"]["repaired"] == "CMYK encoded as RGB"


def test_a_shard_that_was_noted_under_an_earlier_name_of_repaired_is_resumed(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    sha256 = hashlib.sha256(b"1").hexdigest()
    note = {"settings_sha256": "key", "files": [{"path": "a", "sha256": sha256}]}
    note["mended"] = {"CMYK encoded as RGB": ["a"]}
    (tmp_path / "a.json").write_text(json.dumps(note))
    facts = shards.finished(tmp_path, tmp_path, "a", "key")
    assert shards.total([facts], "repaired") == {"CMYK encoded as RGB": 1}


@pytest.mark.parametrize("key", ["repaired", "mended"])
def test_the_report_says_how_many_images_were_repaired(key):
    """In a manifest of today, and in one that has the earlier name."""
    manifest = {"samples": 3, "shards": 1, "format": "tfrecord", "samples_sha256": "0"}
    manifest |= {"skipped": {}, key: {"CMYK encoded as RGB": 22, "PNG encoded as JPEG": 1}}
    assert provenance.contents(manifest).startswith(
        "3 samples in 1 shards of tfrecord, 23 repaired;"
    )


def test_a_name_in_an_archive_leads_nowhere_else(tmp_path):
    inner, image = io.BytesIO(), jpeg_of()
    with tarfile.open(fileobj=inner, mode="w") as archive_:
        for name in ("../../escaped.JPEG", "/absolute.JPEG", "good.JPEG"):
            member = tarfile.TarInfo(name)
            member.size = len(image)
            archive_.addfile(member, io.BytesIO(image))
        link = tarfile.TarInfo("link.JPEG")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive_.addfile(link)
    path = tmp_path / "train.tar"
    with tarfile.open(path, "w") as outer:
        member = tarfile.TarInfo("n00000001.tar")
        member.size = len(inner.getvalue())
        outer.addfile(member, io.BytesIO(inner.getvalue()))
    manifest = made(path, tmp_path / "out", "folders", count=1)
    assert manifest["samples"] == 1
    assert manifest["skipped"] == {"a link or no regular file": 1, "not a plain file name": 2}
    assert not list(tmp_path.rglob("escaped*"))


@pytest.mark.parametrize("format", OWN)
def test_a_wrong_byte_in_a_shard_is_found(folders, tmp_path, format):
    manifest = made(folders, tmp_path, format, count=1)
    if format == "folders":
        shard = next(tmp_path.rglob("*.JPEG"))
    else:
        shard = tmp_path / next(file["path"] for file in manifest["files"] if "samples" in file)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    try:
        found = shards.digest(tmp_path, manifest)
    except DataError as error:
        assert str(shard.name) in str(error)
    else:  # a format without checksums: the digest of the samples shows it
        assert found != manifest["samples_sha256"]


@pytest.mark.parametrize("format", OWN)
def test_a_shard_that_was_cut_off_is_found(folders, tmp_path, format):
    manifest = made(folders, tmp_path, format, count=1)
    shard = tmp_path / next(file["path"] for file in manifest["files"] if "samples" in file)
    if format == "folders":
        next(tmp_path.rglob("*.JPEG")).unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(DataError, match=str(tmp_path)):
        shards.digest(tmp_path, manifest)


# What a user gets wrong


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "nowhere.tar"], "nowhere.tar: neither a folder nor a tar archive"),
        (["--source", "."], "has no class folders"),
        (["--shards", "0"], "--shards is 0: at least 1 is needed"),
        (["--shards", "41"], "--shards is 41, more than the 40 images"),
    ],
)
def test_a_mistake_gets_one_message(folders, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    asked = ["--source", str(folders), "--format", "tfrecord", "--out", "out", *arguments]
    with pytest.raises(SystemExit) as stop:
        main(asked)
    assert message in str(stop.value) and "\n" not in str(stop.value)
