"""Unpacking: whole or not at all, and nothing outside the folder."""

import io
import tarfile
import zipfile

import pytest

from dlperf.data.prefetch import DataError
from dlperf.data.unpack import unpack


def tar(path, *entries, mode="w"):
    """A tar of entries: a name (a file of that name), or a TarInfo."""
    with tarfile.open(path, mode) as archive:
        for entry in entries:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            if not isinstance(entry, tarfile.TarInfo):
                info.size = len(entry)
            archive.addfile(info, io.BytesIO(info.name.encode()))
    return path


def special(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_a_tar_is_unpacked(tmp_path, mode):
    folder = special("empty", tarfile.DIRTYPE)
    archive = tar(tmp_path / "a.tar", "one", "sub/two", folder, mode=mode)
    assert unpack(archive, tmp_path / "out") == 10
    assert (tmp_path / "out/sub/two").read_text() == "sub/two"
    assert (tmp_path / "out/empty").is_dir()


def test_a_zip_is_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sub/one", "1")
        archive.mkdir("empty")
    assert unpack(tmp_path / "a.zip", tmp_path / "out") == 1
    assert (tmp_path / "out/sub/one").read_text() == "1"


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("../out-of-it", "leads outside its folder"),
        ("sub/../../out-of-it", "leads outside its folder"),
        ("/tmp/out-of-it", "leads outside its folder"),
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "is a link or a device"),
        (special("link", tarfile.SYMTYPE, "inside"), "is a link or a device"),
        (special("link", tarfile.LNKTYPE, "../x"), "is a link or a device"),
        (special("null", tarfile.CHRTYPE), "is a link or a device"),
        (special("pipe", tarfile.FIFOTYPE), "is a link or a device"),
        ("one", "occurs twice"),
        ("one/below", "occurs twice"),
    ],
    ids=str,
)
def test_a_tar_that_would_do_harm_is_refused_and_leaves_nothing(tmp_path, entry, told):
    archive = tar(tmp_path / "a.tar", "one", entry)
    with pytest.raises(DataError, match=told):
        unpack(archive, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


@pytest.mark.parametrize("name", ["../out-of-it", "/out-of-it", "sub\\..\\..\\out-of-it"])
def test_a_zip_that_leads_outside_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "1")
    with pytest.raises(DataError, match="leads outside its folder"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_a_link_in_a_zip_is_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match="is a link or a device"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_that_unpacks_to_more_than_it_may_is_refused(tmp_path, kind):
    zeros = bytes(10**6)
    if kind == "zip":
        with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("zeros", zeros)
    else:
        with tarfile.open(tmp_path / "a", "w:gz") as archive:
            info = tarfile.TarInfo("zeros")
            info.size = len(zeros)
            archive.addfile(info, io.BytesIO(zeros))
    assert (tmp_path / "a").stat().st_size < 10_000
    with pytest.raises(DataError, match=r"unpacks to more than 1\.0 kB \(at 'zeros'\)"):
        unpack(tmp_path / "a", tmp_path / "out", most_bytes=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_damaged_archive_leaves_nothing(tmp_path):
    whole = tar(tmp_path / "a", "one", "two", mode="w:gz").read_bytes()
    for content in (whole[: len(whole) // 2], b"no archive", b""):
        (tmp_path / "a").write_bytes(content)
        with pytest.raises(DataError, match="is damaged, or not a tar or zip"):
            unpack(tmp_path / "a", tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_what_is_there_is_not_written_over(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="exists already"):
        unpack(tar(tmp_path / "a", "one"), tmp_path / "out")
