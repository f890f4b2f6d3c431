"""Fetching: what a user sees of each fault, and that half a file never stands under its name.

A real server on this machine has the faults (tests/support/faulty_server.py).
"""

import base64
import hashlib
import json
import os
import pty
import random
import resource
import signal
import subprocess
import sys
import time
from email.utils import formatdate

import pytest
import yaml
from conftest import ROOT
from faulty_server import (
    FaultyServer,
    change,
    cut,
    cut_chunked,
    redirect,
    reset,
    stall,
    status,
    wrong_part,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlperf.loaders.manifest import verify
from dlperf.prepare import addresses, fetch, part, progress
from dlperf.prepare.addresses import _redirected, _retry_after

SCRIPTS = ROOT / "scripts"
CONTENT = random.Random(1).randbytes(3_000_000)
OTHER = random.Random(2).randbytes(3_000_000)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Short waits, and nothing of this machine's own settings."""
    monkeypatch.setattr(fetch, "LONGEST_BACKOFF", 0.01)
    addresses._pool.cache_clear()  # its connections trust what an earlier test's environment named
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def server():
    server = FaultyServer()
    yield server
    server.close()


@pytest.fixture
def other_server():
    server = FaultyServer()
    yield server
    server.close()


class Fetch:
    """dlperf.prepare.fetch as a program, for a source of one file, set.bin, in a folder."""

    def __init__(self, folder, capsys):
        self.folder, self.capsys = folder, capsys
        self.sources, self.out = folder / "data.yaml", folder / "out"
        self.target = self.out / "set.bin"

    def say(self, *addresses, credentials=None, local=None, **about):
        """Write data.yaml; `about` is what it says of the file."""
        about = about or {"sha256": hashlib.sha256(CONTENT).hexdigest(), "bytes": len(CONTENT)}
        source = {"title": "A set", "licence": "CC0", "access": "ask for it"}
        source["files"] = [{"name": "set.bin", "addresses": list(addresses), **about}]
        if credentials:
            source["credentials"] = credentials
        if local:
            source["local"] = str(local)
        self.sources.write_text(yaml.safe_dump({"sources": {"mine": source}}))
        return self

    def arguments(self, *more):
        return [f"--sources={self.sources}", "--source=mine", f"--out={self.out}", *more]

    def run(self, *more):
        """Exit status and what was printed; half a file is never under the file's name."""
        done = fetch.main(self.arguments("--timeout=0.5", *more))
        self.printed = "".join(self.capsys.readouterr())
        assert "Traceback" not in self.printed
        assert self.is_whole() == self.target.exists()
        return done

    def is_whole(self):
        return self.target.exists() and self.target.read_bytes() == CONTENT

    def succeeds(self, *more):
        assert self.run(*more) == 0, self.printed
        assert self.target.exists() and self.left() == {"set.bin", "manifest.json"}
        verify(str(self.out / "manifest.json"))
        (entry,) = self.manifest()["files"]
        assert entry["sha256"] == hashlib.sha256(CONTENT).hexdigest()
        return entry

    def fails(self, *more):
        assert self.run(*more) == 1
        assert not self.target.exists() and not (self.out / "manifest.json").exists()
        return self.printed

    def left(self):
        return {path.name for path in self.out.iterdir()} - {".lock"}

    def manifest(self):
        return json.loads((self.out / "manifest.json").read_text())

    def process(self, *more, **options):
        environ = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
        command = [sys.executable, "-m", "dlperf.prepare.fetch", *self.arguments(*more)]
        return subprocess.Popen(command, env=environ, **options)


@pytest.fixture
def mine(tmp_path, capsys):
    return Fetch(tmp_path, capsys)


# All is well


def test_a_file_is_fetched_verified_and_listed(server, mine):
    entry = mine.say(server.give("/set.bin", CONTENT)).succeeds()
    assert entry == {
        "path": "set.bin",
        "bytes": len(CONTENT),
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "checked": "sha256",
        "from": f"http://{server.host}/set.bin",
    }
    manifest = mine.manifest()
    assert (manifest["schema"], manifest["dataset"]) == ("dlperf.data/1", "mine")
    assert manifest["licence"] == "CC0"


def test_what_is_there_is_verified_and_not_fetched_again(server, mine):
    first = mine.say(server.give("/set.bin", CONTENT)).succeeds()
    assert mine.succeeds() == first
    assert len(server.requests) == 1


def test_what_is_there_and_differs_is_told_and_left_alone(server, mine):
    mine.say(server.give("/set.bin", CONTENT)).succeeds()
    mine.target.write_bytes(OTHER)
    assert fetch.main(mine.arguments()) == 1
    printed = mine.capsys.readouterr().err
    assert (
        "set.bin: its sha256 is" in printed and "remove it, and it will be fetched again" in printed
    )
    assert mine.target.read_bytes() == OTHER


def test_several_files_come_at_once_and_one_that_fails_does_not_stop_the_others(server, mine):
    mine.say(server.give("/0", CONTENT))
    content = yaml.safe_load(mine.sources.read_text())
    (file,) = content["sources"]["mine"]["files"]
    names = [f"sub/{number}.bin" for number in range(5)]
    addresses = [server.give(f"/{number}", CONTENT) for number in range(4)]
    addresses.append(f"http://{server.host}/not-there")
    content["sources"]["mine"]["files"] = [
        {**file, "name": name, "addresses": [address]}
        for name, address in zip(names, addresses, strict=True)
    ]
    mine.sources.write_text(yaml.safe_dump(content))
    assert mine.run("--jobs=3") == 1
    assert "1 of 5 files could not be fetched; the others are kept" in mine.printed
    assert [(mine.out / name).exists() for name in names] == [True] * 4 + [False]
    server.give("/not-there", CONTENT)
    assert mine.run() == 0
    assert [file["path"] for file in mine.manifest()["files"]] == names
    assert len(server.requests) == 6


def test_an_empty_file_is_a_file(server, mine):
    sha256 = hashlib.sha256(b"").hexdigest()
    mine.say(server.give("/set.bin", b""), sha256=sha256, bytes=0)
    assert fetch.main(mine.arguments()) == 0
    assert mine.target.read_bytes() == b"" and mine.left() == {"set.bin", "manifest.json"}


# Faults that pass: the file comes nevertheless


@pytest.mark.parametrize(
    ("faults", "ranges", "told"),
    [
        ([cut(1_000_000)], [None, 1_000_000], "broke off after 1000000 of 3000000 bytes"),
        ([cut(1_000_000), cut(500_000)], [None, 1_000_000, 1_500_000], "(1 of 5)"),
        ([reset(1_000_000)], [None, 1_000_000], "connection reset by peer; again in"),
        ([stall(1_000_000)], [None, 1_000_000], "nothing came for 0.5 s; again in"),
        ([status(503)] * 3, [None] * 4, "answers 503 Service Unavailable; again in"),
        ([status(429, Retry_After="0.2")], [None] * 2, "answers 429 Too Many Requests"),
        ([status(500), cut(0)], [None] * 3, "broke off after 0 of 3000000 bytes"),
        ([cut_chunked(1_000_000)], [None, 1_000_000], "broke off (IncompleteRead); again in"),
        ([cut(1_000_000), status(416)], [None, 1_000_000, None], "has no byte 1000000"),
    ],
    ids=["cut", "cut twice", "reset", "stall", "503", "429", "500", "chunked", "416"],
)
def test_a_fault_that_passes_is_told_and_the_rest_is_fetched(server, mine, faults, ranges, told):
    mine.say(server.give("/set.bin", CONTENT, *faults, etag='"one"')).succeeds()
    asked = [None if start is None else f"bytes={start}-" for start in ranges]
    assert server.ranges() == asked
    assert told in mine.printed


def test_a_server_says_how_long_to_wait(server, mine):
    mine.say(server.give("/set.bin", CONTENT, status(503, Retry_After="1")))
    began = time.monotonic()
    mine.succeeds()
    assert time.monotonic() - began >= 1
    assert "again in 1.0 s" in mine.printed


def test_retry_after_is_seconds_or_a_date_and_is_not_obeyed_for_ever():
    assert _retry_after("7") == 7
    assert 50 < _retry_after(formatdate(time.time() + 60, usegmt=True)) <= 60
    assert _retry_after(formatdate(0, usegmt=True)) == 0
    assert _retry_after("99999") == 600
    assert _retry_after("soon") is None and _retry_after("") is None


def test_a_server_without_ranges_is_asked_for_the_whole_file_again(server, mine):
    mine.say(server.give("/set.bin", CONTENT, cut(1_000_000), cut(2_000_000), ranges=False))
    mine.succeeds()
    assert server.ranges() == [None, "bytes=1000000-", "bytes=2000000-"]
    assert "starts again from byte 0, not from byte 2000000" in mine.printed


def test_a_file_that_changed_meanwhile_is_not_glued_to_its_old_half(server, mine):
    faults = [cut(1_000_000), change(CONTENT)]
    mine.say(server.give("/set.bin", OTHER, *faults)).succeeds()
    assert "starts again from byte 0, not from byte 1000000" in mine.printed
    assert server.requests[1][1]["If-Range"] == '"one"'


def test_halves_that_do_not_fit_are_fetched_from_the_start(server, mine):
    """Where a server names neither ETag nor date, the checksum shows that the file changed."""
    faults = [cut(1_000_000), change(CONTENT, etag=None)]
    mine.say(server.give("/set.bin", OTHER, *faults, etag=None)).succeeds()
    assert "its parts are of different versions; fetching it again" in mine.printed
    assert server.ranges() == [None, "bytes=1000000-", None]


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(cuts=st.lists(st.integers(0, 400_000), max_size=4), ranges=st.booleans())
def test_wherever_the_connection_ends_the_file_comes_whole(
    tmp_path_factory, capsys, server, cuts, ranges
):
    mine = Fetch(tmp_path_factory.mktemp("cuts"), capsys)
    small = CONTENT[:300_000]
    mine.say(
        server.give("/set.bin", small, *map(cut, cuts), ranges=ranges),
        sha256=hashlib.sha256(small).hexdigest(),
    )
    assert fetch.main(mine.arguments("--retries=9")) == 0
    assert mine.target.read_bytes() == small
    assert mine.left() == {"set.bin", "manifest.json"}


# Faults that stay: nothing comes, and the message says why


@pytest.mark.parametrize(
    ("content", "faults", "told"),
    [
        (OTHER, [], "gives a wrong file: its sha256 is"),
        (CONTENT[:-1], [], "has 2999999 bytes, but"),
        (CONTENT, [status(404)], "answers 404 Not Found"),
        (CONTENT, [status(403)], "answers 403 Forbidden"),
        (CONTENT, [status(503)] * 9, "answers 503 Service Unavailable, 3 times in a row"),
        (CONTENT, [cut(9), wrong_part], "answers a request from byte 9 with another part"),
        (CONTENT, [redirect("/set.bin")] * 20, "redirects more than 10 times"),
        (
            CONTENT,
            [redirect("file:///etc/passwd")],
            "redirects to something that is not an http(s)",
        ),
        (CONTENT, [status(302)], "redirects to something that is not an http(s)"),
    ],
    ids=["bytes", "length", "404", "403", "503", "part", "loop", "file", "nowhere"],
)
def test_a_fault_that_stays_is_told_and_nothing_stands_under_the_name(
    server, mine, content, faults, told
):
    printed = mine.say(server.give("/set.bin", content, *faults)).fails("--retries=2")
    assert f"http://{server.host}/set.bin: {told}" in printed
    assert "Access: ask for it" in printed
    assert "error: set.bin: no address worked" in printed


def test_wrong_bytes_leave_nothing_behind(server, mine):
    mine.say(server.give("/set.bin", OTHER)).fails()
    assert mine.left() == set()


def test_a_server_that_is_not_there_is_told(server, mine):
    server.close()
    mine.say(f"http://{server.host}/set.bin")
    assert "connection refused, 3 times in a row" in mine.fails("--retries=2")
    server.close = lambda: None


def test_mirrors_are_tried_in_order_and_go_on_where_the_one_before_ended(
    server, other_server, mine
):
    mine.say(
        f"http://{server.host}/not-there",
        server.give("/set.bin", CONTENT, cut(1_000_000), *[status(503)] * 9),
        other_server.give("/mirror.bin", CONTENT, etag='"other"'),
    )
    entry = mine.succeeds("--retries=2")
    assert entry["from"] == f"http://{other_server.host}/mirror.bin"
    assert other_server.ranges() == ["bytes=1000000-"]
    assert "If-Range" not in other_server.requests[0][1]


def test_a_mirror_with_another_file_is_passed_over(server, other_server, mine):
    mine.say(other_server.give("/a", OTHER), server.give("/set.bin", CONTENT)).succeeds()
    assert "gives a wrong file" in mine.printed


# Interruptions


@pytest.mark.usefixtures("heeding_ctrl_c")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_fetch_goes_on_where_it_was(server, mine, ending):
    mine.say(server.give("/set.bin", CONTENT, stall(1_000_000)))
    process = mine.process(stderr=subprocess.PIPE, text=True)
    half = mine.out / "set.bin.part"
    until(lambda: half.exists() and half.stat().st_size == 1_000_000)
    process.send_signal(ending)
    _, printed = process.communicate(timeout=30)  # at once, however busy the machine is
    assert "Traceback" not in printed
    if ending == signal.SIGINT:
        assert process.returncode == 130
        assert printed == "stopped; what was fetched is kept, and the same command resumes\n"
    assert mine.left() == {"set.bin.part", "set.bin.part.json"}
    mine.succeeds()
    assert server.ranges() == [None, "bytes=1000000-"]


def test_a_half_that_was_damaged_on_disk_is_fetched_from_the_start(server, mine):
    mine.say(server.give("/set.bin", CONTENT, cut(1_000_000), *[status(404)]))
    mine.fails()
    half = mine.out / "set.bin.part"
    half.write_bytes(bytes(1_000_000))
    mine.succeeds()
    assert "its parts are of different versions" in mine.printed


def test_a_half_of_another_version_is_not_used(server, mine):
    mine.say(
        server.give("/set.bin", OTHER, cut(1_000_000), status(404)), bytes=3_000_000, md5="0" * 32
    )
    mine.fails()
    mine.say(server.give("/set.bin", CONTENT)).succeeds()
    assert server.ranges()[-1] is None


def test_two_fetches_do_not_write_one_file(server, mine):
    mine.say(server.give("/set.bin", CONTENT, stall(1_000_000)))
    process = mine.process()
    until(lambda: (mine.out / "set.bin.part").exists())
    assert "another fetch is running there" in mine.fails()
    process.kill()
    process.wait()


def test_a_full_disk_is_told_before_anything_is_fetched(server, mine, monkeypatch):
    mine.say(server.give("/set.bin", CONTENT))
    monkeypatch.setattr(fetch.shutil, "disk_usage", lambda path: type("Disk", (), {"free": 10**6}))
    assert "3.0 MB must be fetched, but only 1.0 MB are free there" in mine.fails()
    assert server.requests == []


def test_a_disk_that_fills_meanwhile_is_told_and_what_came_stays(server, mine):
    mine.say(server.give("/set.bin", CONTENT))
    process = mine.process(
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000)),
    )
    _, printed = process.communicate(timeout=10)
    assert process.returncode == 1 and "Traceback" not in printed
    assert "set.bin.part: File too large; free some space, and the same command resumes" in printed
    assert not mine.target.exists()
    mine.succeeds()
    assert server.ranges() == [None, "bytes=2000000-"]


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# Checksums


def test_a_file_without_a_known_checksum_is_not_fetched_unasked(server, mine):
    printed = mine.say(server.give("/set.bin", CONTENT), sha256="unknown").fails()
    assert "sources.mine.files[0] (set.bin): no checksum is known" in printed
    assert "--accept-unknown" in printed and server.requests == []


def test_a_checksum_that_was_found_once_is_held_to(server, mine):
    entry = mine.say(server.give("/set.bin", CONTENT), sha256="unknown").succeeds(
        "--accept-unknown"
    )
    assert entry["checked"] == "nothing published"
    assert f"to pin it: sha256: {entry['sha256']}" in mine.printed
    mine.target.unlink()
    server.give("/set.bin", OTHER)
    assert mine.run() == 1
    assert "gives a wrong file" in mine.printed


def test_without_length_and_checksum_nothing_is_taken(server, mine):
    mine.say(server.give("/set.bin", CONTENT, cut_chunked(10)), sha256="unknown")
    assert "does not say how long it is" in mine.fails("--accept-unknown")


def test_halves_are_not_put_together_where_nothing_would_show_a_change(server, mine):
    mine.say(server.give("/set.bin", CONTENT, cut(1_000_000), etag=None), sha256="unknown")
    mine.succeeds("--accept-unknown")
    assert server.ranges() == [None, None]


@pytest.mark.parametrize("name", ["md5", "sha1"])
def test_a_weaker_checksum_is_held_to_and_the_sha256_is_recorded(server, mine, name):
    about = {name: hashlib.new(name, CONTENT).hexdigest()}
    assert mine.say(server.give("/set.bin", CONTENT), **about).succeeds()["checked"] == name
    mine.target.unlink()
    (mine.out / "manifest.json").unlink()
    mine.say(server.give("/set.bin", OTHER), **about)
    assert f"gives a wrong file: its {name} is" in mine.fails()


# Files on this machine


def test_a_local_folder_is_verified_and_linked(mine, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/set.bin").write_bytes(CONTENT)
    entry = mine.say("https://example.org/a").succeeds(f"--local={tmp_path / 'mine'}")
    assert mine.target.is_symlink() and entry["from"] == (tmp_path / "mine/set.bin").as_uri()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (OTHER, "set.bin: its sha256 is"),
        (b"x", "set.bin: has 1 bytes, but"),
        (None, "set.bin: does not exist, but"),
    ],
)
def test_a_local_file_that_is_not_the_right_one_is_told(mine, tmp_path, content, told):
    (tmp_path / "mine").mkdir()
    if content:
        (tmp_path / "mine/set.bin").write_bytes(content)
    assert told in mine.say(local=tmp_path / "mine").fails()


def test_a_local_folder_that_is_not_there_is_told(mine, tmp_path):
    told = mine.say(local=tmp_path / "nowhere").fails()
    assert "sources.mine.local:" in told and "is not a folder on this machine" in told


def test_a_source_without_address_says_how_to_get_access(mine):
    assert "has no address. ask for it: pass --local <folder>" in mine.say().fails()


def test_a_file_address_is_copied(mine, tmp_path):
    (tmp_path / "a file").write_bytes(CONTENT)
    mine.say((tmp_path / "a file").as_uri()).succeeds()
    assert not mine.target.is_symlink()


# Credentials

USER = {"DATA_USER": "somebody", "DATA_PASSWORD": "hidden-word"}
BASIC = "Basic " + base64.b64encode(b"somebody:hidden-word").decode()


def with_user(server):
    return {"hosts": [server.host], "user": "DATA_USER", "password": "DATA_PASSWORD"}


def allow(header, value):
    return lambda handler: None if handler.headers.get(header) == value else 401


def test_user_and_password_come_from_the_environment_and_stand_nowhere(server, mine, monkeypatch):
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    server.gate = allow("Authorization", BASIC)
    mine.say(server.give("/set.bin", CONTENT, cut(9)), credentials=with_user(server)).succeeds()
    everything = mine.printed + "".join(path.read_text() for path in mine.out.glob("*.json"))
    assert "hidden-word" not in everything and BASIC.split()[1] not in everything


def test_credentials_that_are_not_set_are_named(server, mine):
    server.gate = allow("Authorization", BASIC)
    mine.say(server.give("/set.bin", CONTENT), credentials=with_user(server))
    assert "answers 401 Unauthorized; not set: DATA_USER, DATA_PASSWORD" in mine.fails()


def test_credentials_that_are_refused_are_named_and_not_shown(server, mine, monkeypatch):
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    server.gate = allow("Authorization", "another")
    mine.say(server.give("/set.bin", CONTENT), credentials=with_user(server))
    printed = mine.fails()
    assert "DATA_USER and DATA_PASSWORD may be wrong" in printed and "hidden" not in printed


def test_a_credential_that_no_header_can_hold_is_named_and_not_shown(server, mine, monkeypatch):
    monkeypatch.setenv("DATA_TOKEN", "hidden\nHost: other")
    credentials = {"hosts": [server.host], "header": "Authorization", "value": "DATA_TOKEN"}
    printed = mine.say(server.give("/set.bin", CONTENT), credentials=credentials).fails()
    assert "DATA_TOKEN holds characters that a header cannot have" in printed
    assert "hidden" not in printed and server.requests == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_redirect_takes_credentials_to_no_other_host_or_port(
    server, other_server, mine, monkeypatch, host
):
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    other_server.give("/set.bin", CONTENT, cut(9))
    there = redirect(f"http://{host}:{other_server.port}/set.bin?X-Amz-Signature=hidden-sign")
    server.gate = allow("Authorization", BASIC)
    address = server.give("/set.bin", CONTENT, there, there)
    entry = mine.say(address, credentials=with_user(server)).succeeds()
    assert len(other_server.requests) == 2
    assert all("Authorization" not in headers for _, headers in other_server.requests)
    assert entry["from"] == address
    assert "hidden" not in mine.printed + (mine.out / "manifest.json").read_text()


def test_a_redirect_may_be_relative():
    assert _redirected("https://example.org/a", "/b c") == "https://example.org/b%20c"


def test_an_address_that_is_a_secret_itself_comes_from_the_environment(server, mine, monkeypatch):
    address = server.give("/set.bin", CONTENT, status(503))
    monkeypatch.setenv("SIGNED", f"{address}?sig=hidden-sign")
    entry = mine.say("env:SIGNED").succeeds()
    assert entry["from"] == "env:SIGNED" and server.requests[0][0] == "/set.bin?sig=hidden-sign"
    assert "hidden" not in mine.printed + (mine.out / "manifest.json").read_text()


@pytest.mark.parametrize("address", ["http:hidden", "http://[hidden/a", "http://a:hidden/"])
def test_an_address_that_is_not_valid_is_told_and_not_shown(mine, monkeypatch, address):
    monkeypatch.setenv("SIGNED", address)
    monkeypatch.setenv("TOKEN", "x")
    credentials = {"hosts": ["example.org"], "header": "Authorization", "value": "TOKEN"}
    printed = mine.say("env:SIGNED", credentials=credentials).fails()
    assert "env:SIGNED: is not a valid address" in printed and "hidden" not in printed


def test_an_address_that_is_not_in_the_environment_is_told(mine):
    assert (
        "env:NOT_SET: the environment variable NOT_SET is not set"
        in mine.say("env:NOT_SET").fails()
    )


# https


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and a certificate for 127.0.0.1 that nobody has signed."""
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    command += " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    command += f" -keyout {folder / 'key'} -out {folder / 'certificate'}"
    subprocess.run(command.split(), check=True, capture_output=True)
    both = (folder / "key").read_text() + (folder / "certificate").read_text()
    (folder / "both").write_text(both)
    return folder / "both"


@pytest.fixture
def tls_server(certificate):
    server = FaultyServer(tls=certificate)
    yield server
    server.close()


def test_a_certificate_that_nobody_trusts_is_told(tls_server, mine):
    mine.say(tls_server.give("/set.bin", CONTENT))
    assert "its certificate is not trusted (self" in mine.fails()
    assert tls_server.requests == []


def test_https_is_resumed_and_trusts_what_the_environment_names(
    tls_server, mine, monkeypatch, certificate
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    mine.say(tls_server.give("/set.bin", CONTENT, cut(1_000_000))).succeeds()
    assert tls_server.ranges() == [None, "bytes=1000000-"]


def test_a_redirect_from_https_to_http_is_not_followed(
    tls_server, server, mine, monkeypatch, certificate
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    in_clear = redirect(server.give("/set.bin", CONTENT))
    printed = mine.say(tls_server.give("/set.bin", CONTENT, in_clear)).fails()
    assert f"redirects from https to http (http://{server.host}/set.bin)" in printed
    assert server.requests == []


# Proxies


def test_the_proxy_of_the_environment_is_used_with_its_password_and_without_showing_it(
    server, mine, monkeypatch
):
    monkeypatch.setenv("http_proxy", f"http://somebody:hidden%21word@{server.host}")
    proxied = "http://example.invalid/set.bin"
    server.give("/set.bin", CONTENT, cut(9))
    mine.say(proxied).succeeds()
    assert [path for path, _ in server.requests] == [proxied] * 2
    basic = "Basic " + base64.b64encode(b"somebody:hidden!word").decode()
    assert {headers["proxy-authorization"] for _, headers in server.requests} == {basic}
    assert "hidden" not in mine.printed + (mine.out / "manifest.json").read_text()


def test_each_address_of_a_redirect_has_its_own_proxy_or_none(
    server, other_server, mine, monkeypatch
):
    monkeypatch.setenv("http_proxy", other_server.host)
    monkeypatch.setenv("no_proxy", server.host)
    other_server.give("/set.bin", CONTENT)
    mine.say(server.give("/a", b"", redirect("http://example.invalid/set.bin"))).succeeds()
    assert [path for path, _ in server.requests] == ["/a"]
    assert [path for path, _ in other_server.requests] == ["http://example.invalid/set.bin"]


def test_a_proxy_that_does_not_speak_http_is_told_and_not_shown(mine, monkeypatch):
    monkeypatch.setenv("https_proxy", "socks5://somebody:hidden@127.0.0.1:1080")
    printed = mine.say("https://example.invalid/set.bin").fails()
    assert "the environment variable https_proxy is not an http(s) address" in printed
    assert "hidden" not in printed


# S3

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "hidden-key",
    "AWS_SESSION_TOKEN": "session",
    "AWS_REGION": "eu-central-1",
}


def signed_by(keys):
    """Lets requests pass that botocore would sign in the same way."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    def gate(handler):
        said = dict(
            item.strip().split("=", 1)
            for item in handler.headers.get("Authorization", "=").partition(" ")[2].split(",")
            if "=" in item
        )
        if not said:
            return 403
        names = said["SignedHeaders"].split(";")
        headers = {name: handler.headers[name] for name in names if name != "host"}
        request = AWSRequest(
            "GET", f"http://{handler.headers['Host']}{handler.path}", headers=headers
        )
        request.context["timestamp"] = handler.headers["X-Amz-Date"]
        auth = S3SigV4Auth(
            Credentials(
                keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], keys["AWS_SESSION_TOKEN"]
            ),
            "s3",
            keys["AWS_REGION"],
        )
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return None if auth.signature(text, request) == said["Signature"] else 403

    return gate


@pytest.fixture
def s3(server, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.host}")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    server.gate = signed_by(KEYS)
    return server


def test_s3_requests_are_signed_and_resumed(s3, mine):
    s3.give("/bucket/a%2Bfolder/set.bin", CONTENT, cut(1_000_000), status(503))
    entry = mine.say("s3://bucket/a+folder/set.bin").succeeds()
    assert entry["from"] == "s3://bucket/a+folder/set.bin"
    assert s3.ranges() == [None, "bytes=1000000-", "bytes=1000000-"]
    assert "hidden" not in mine.printed + (mine.out / "manifest.json").read_text()


def test_a_wrong_s3_key_is_told_and_not_shown(s3, mine, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-other")
    s3.give("/bucket/set.bin", CONTENT)
    printed = mine.say("s3://bucket/set.bin").fails()
    assert "answers 403 Forbidden; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY may be" in printed
    assert "hidden" not in printed


def test_a_public_bucket_needs_no_keys(server, mine, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.host}")
    server.give("/bucket/set.bin", CONTENT)
    mine.say("s3://bucket/set.bin").succeeds()
    assert "Authorization" not in server.requests[0][1]


def test_a_bucket_of_another_region_is_told(server, mine, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.host}")
    server.give("/bucket/set.bin", CONTENT, status(301, x_amz_bucket_region="eu-west-1"))
    assert (
        "not in region us-east-1 but in eu-west-1; set AWS_REGION"
        in mine.say("s3://bucket/set.bin").fails()
    )


# Mistakes and progress


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--source=mien"], "--source: 'mien' is not a source of this file; did you mean 'mine'?"),
        (["--sources=nowhere.yaml"], "nowhere.yaml: the file: cannot be read"),
    ],
)
def test_a_mistake_gets_one_message(server, mine, arguments, told):
    mine.say(server.give("/set.bin", CONTENT))
    assert told in mine.fails(*arguments)


def test_a_folder_that_cannot_be_written_is_told(server, mine, tmp_path):
    (tmp_path / "file").write_text("")
    mine.say(server.give("/set.bin", CONTENT))
    assert "Not a directory" in mine.fails(f"--out={tmp_path / 'file' / 'out'}")


def test_a_log_gets_a_line_now_and_then(server, mine, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_A_LINE", 0.1)
    mine.say(server.give("/set.bin", CONTENT, stall(1_000_000))).succeeds()
    assert "set.bin: 1.0 MB of 3.0 MB, " in mine.printed


def test_a_terminal_gets_bars(server, mine):
    mine.say(server.give("/set.bin", CONTENT))
    ours, theirs = pty.openpty()
    process = mine.process(stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    assert process.wait(10) == 0
    assert b"set.bin" in os.read(ours, 10_000)
    os.close(ours)


def test_checksums_are_the_same_in_the_thread_and_of_the_file(tmp_path):
    (tmp_path / "a").write_bytes(CONTENT)
    hashing = part.Hashing(["sha256", "md5"])
    for start in range(0, len(CONTENT), 70_000):
        hashing.update(CONTENT[start : start + 70_000])
    assert hashing.digests() == part.digests_of(tmp_path / "a", ["sha256", "md5"])
