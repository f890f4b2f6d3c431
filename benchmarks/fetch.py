"""How fast is fetching, checksums included, beside curl?

    python benchmarks/fetch.py [--gib 2] [--repeat 9] [--folder /dev/shm] [--link 250]

One large file over loopback, from a server that sends it by sendfile, as fast as it can or (--link)
at the pace of a network. In turns, in an order that is shuffled in each round: our fetch, as a call
and as the command; curl; curl and a sync of its file (our fetch syncs); curl and sha256sum; and
Python's sha256 of as many bytes in memory, which no fetch that verifies can undercut. Printed, and
written to results/benchmarks/fetch.tsv, with the ratio of each to our call (1.1: ours is 10 %
faster) and its interval; exits 1 where our call has less than 0.9 of the speed of curl or of that
sha256, whichever is slower.
"""

import argparse
import hashlib
import multiprocessing
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import yaml

from dlperf.prepare.fetch import Options, fetch
from dlperf.prepare.sources import load

BLOCK = 2**24
LIMIT = 0.9
BOUNDS = ("curl", "sha256 in memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=2)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--folder", type=Path, help="where files are (default: a temporary one)")
    parser.add_argument("--link", type=float, default=0, help="MiB a second; 0: no limit")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        rows = measure(Path(scratch), int(asked.gib * 2**30), asked)
    print("->", common.write("fetch", rows, keys=("folder", "link_mib_per_second", "what")))
    bound = max(row["ratio_median"] for row in rows if row["what"] in BOUNDS)
    if bound < LIMIT:
        sys.exit(f"error: our fetch has {bound} of the speed that is possible, not {LIMIT}")


def measure(scratch, size, asked):
    sha256 = make(scratch / "large.bin", size)
    listening = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.Process(
        target=serve, args=(listening, scratch / "large.bin", asked.link), daemon=True
    )
    server.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/large.bin"
    file = {"name": "large.bin", "addresses": [address], "bytes": size, "sha256": sha256}
    source = {"title": "random", "licence": "none", "access": "here", "files": [file]}
    sources, out = scratch / "data.yaml", scratch / "out"
    sources.write_text(yaml.safe_dump({"sources": {"large": source}}))
    loaded = load(sources)["large"]
    command = [sys.executable, "-m", "dlperf.prepare.fetch", "--sources", str(sources)]
    command += ["--source", "large", "--out", str(out)]
    target = out / "large.bin"
    curl = f"curl --silent --fail --output {target} {address}"
    ways = {
        "our fetch": lambda: fetch("benchmark", "large", loaded, out, Options()),
        "our fetch, the command": lambda: run(command),
        "curl": lambda: run(curl),
        "curl and sync": lambda: run(f"{curl} && sync {target}"),
        "curl and sha256sum": lambda: run(f"{curl} && sha256sum {target}"),
        "sha256 in memory": lambda: sha256_of(size),
    }
    seconds = {what: [] for what in ways}
    for number in range(asked.repeat + 1):
        for what in random.Random(number).sample(list(ways), len(ways)):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            os.sync()
            start = time.perf_counter()
            ways[what]()
            if number:  # the first round warms up
                seconds[what].append(time.perf_counter() - start)
    server.kill()
    rows = []
    for what, each in seconds.items():
        row = {
            "folder": asked.folder or tempfile.gettempdir(),
            "link_mib_per_second": asked.link,
            "what": what,
            "gib": asked.gib,
            "median_seconds": round(statistics.median(each), 3),
            "mib_per_second": round(size / 2**20 / statistics.median(each)),
            **common.summary(
                [theirs / ours for theirs, ours in zip(each, seconds["our fetch"], strict=True)]
            ),
        }
        rows.append(row)
        print(
            f"{what}: {row['median_seconds']} s, {row['mib_per_second']} MiB/s; to ours "
            f"{row['ratio_median']} [{row['ratio_low']}, {row['ratio_high']}]"
        )
    return rows


def make(path, size):
    """A file of random bytes, and its sha256."""
    sha256 = hashlib.sha256()
    with open(path, "wb") as stream:
        for start in range(0, size, BLOCK):
            block = os.urandom(min(BLOCK, size - start))
            sha256.update(block)
            stream.write(block)
    return sha256.hexdigest()


def sha256_of(size):
    """As much work for sha256 as a file of that size, without the file."""
    sha256, chunk = hashlib.sha256(), bytes(2**20)
    for _ in range(size // len(chunk)):
        sha256.update(chunk)


def serve(listening, path, link):
    """Answer every request with the whole file, at `link` MiB a second if that is not 0."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {path.stat().st_size}\r\nConnection: close\r\n"
    head += 'ETag: "large"\r\n\r\n'
    while True:
        connection, _ = listening.accept()
        with connection, open(path, "rb") as stream:
            asked = b""
            while b"\r\n\r\n" not in asked:
                asked += connection.recv(2**16)
            connection.sendall(head.encode())
            if not link:
                connection.sendfile(stream)
                continue
            start = time.perf_counter()
            for number in range(-(-path.stat().st_size // 2**20)):
                connection.sendfile(stream, number * 2**20, 2**20)
                time.sleep(max(0, start + number / link - time.perf_counter()))


def run(command):
    environ = {**os.environ, "PYTHONPATH": str(common.ROOT / "scripts")}
    subprocess.run(
        command, shell=isinstance(command, str), env=environ, check=True, stdout=subprocess.DEVNULL
    )


if __name__ == "__main__":
    main()
