"""Unpacking: whole or not at all, and nothing outside the folder."""

import errno
import io
import os
import tarfile
import zipfile

import pytest

from dlperf.loaders import DataError
from dlperf.prepare.unpack import unpack


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
    ids=lambda each: getattr(each, "name", each),  # no address, which another process has not
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


def patched(archive, old, new):
    content = archive.read_bytes()
    assert old in content
    archive.write_bytes(content.replace(old, new))


def zipped(path, name="some/name", **options):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        archive.writestr(name, "content " * 99)
    return path


def with_a_central_directory_elsewhere(path):
    content = zipped(path).read_bytes()
    end = content.rindex(b"PK\5\6")
    path.write_bytes(content[: end + 16] + b"\xff\xff\xff\x7f" + content[end + 20 :])


def with_a_name_that_is_no_utf8(path):
    patched(zipped(path, name="ä"), "ä".encode(), b"\xff\xff")


def with_a_compression_of_another_kind(path):
    """Says xz, and is deflate."""
    content = bytearray(zipped(path).read_bytes())
    for signature, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        content[content.index(signature) + place] = 14
    path.write_bytes(content)


def with_a_date_and_version_of_nothing(path):
    content = bytearray(zipped(path).read_bytes())
    content[content.index(b"PK\1\2") + 6 : content.index(b"PK\1\2") + 16] = b"\xff" * 10
    path.write_bytes(content)


def with_a_long_name(path):
    zipped(path, name="n" * 300)


def with_a_local_header_elsewhere(path):
    content = bytearray(zipped(path).read_bytes())
    central = content.index(b"PK\1\2")
    content[central + 42 : central + 46] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)


def with_a_local_name_of_another(path):
    content = bytearray(zipped(path).read_bytes())
    content[30] = ord("X")
    path.write_bytes(content)


def with_a_password(path):
    content = bytearray(zipped(path).read_bytes())
    for signature, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        content[content.index(signature) + place] |= 1
    path.write_bytes(content)


def with_a_long_extended_header(path):
    """Which tarfile would read into memory."""
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("one")
        info.pax_headers = {"comment": "x" * (2**20 + 1)}
        archive.addfile(info)


def with_a_negative_size(path):
    content = bytearray(tar(path, "one").read_bytes())
    content[124:136] = b"\xff" * 12
    content[148:156] = b"        "
    content[148:156] = b"%06o\0 " % sum(content[:512])
    path.write_bytes(content)


def that_is_a_folder(path):
    path.mkdir()


def that_is_not_there(path):
    pass


HOSTILE = {
    make.__name__.replace("_", " "): make
    for make in (
        with_a_central_directory_elsewhere,
        with_a_name_that_is_no_utf8,
        with_a_compression_of_another_kind,
        with_a_date_and_version_of_nothing,
        with_a_long_name,
        with_a_local_header_elsewhere,
        with_a_local_name_of_another,
        with_a_password,
        with_a_long_extended_header,
        with_a_negative_size,
        that_is_a_folder,
        that_is_not_there,
    )
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_archive_is_one_message_and_leaves_nothing(tmp_path, make):
    archive = tmp_path / "a.zip"
    make(archive)
    with pytest.raises(DataError) as caught:
        unpack(archive, tmp_path / "out")
    assert str(caught.value).startswith(str(archive)) and "\n" not in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} <= {"a.zip"}


def test_a_zip_bomb_is_refused_before_it_fills_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("dlperf.prepare.unpack.ALWAYS", 10**5)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(10**6))
    with pytest.raises(DataError, match="unpacks to more than"):
        unpack(tmp_path / "a.zip", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_an_archive_of_countless_entries_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dlperf.prepare.unpack.MOST_ENTRIES", 3)
    with pytest.raises(DataError, match="has more than 3 entries"):
        unpack(tar(tmp_path / "a.tar", "1", "2", "3", "4"), tmp_path / "out")


def test_a_full_disk_is_one_message(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    archive = zipped(tmp_path / "a.zip")
    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(DataError, match=f"the disk of {tmp_path} is full"):
        unpack(archive, tmp_path / "out")
