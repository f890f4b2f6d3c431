"""MindRecord: MindSpore's format of pages of rows, with an index (SQLite) beside them.

A sample's ints become int32 columns, its arrays int32 or float32 ones. Only MindSpore can write and
read the format. So samples are sent to a process of its interpreter, and received from it, as
pickles. They are prepared by the same libraries as for every other format. `use` names the
interpreter. Run as a program, this module is that process.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dlperf.loaders import DataError

SUFFIX = ".mindrecord"
SCRIPTS = str(Path(__file__).resolve().parents[3])  # where the other interpreter finds this package
COMMIT_EVERY = 256  # samples
FIX = "name MindSpore's environment: --environment results/environments/mindspore.cpu/env.json"

_environment: dict[str, Any] = {}
_process: subprocess.Popen | None = None


def use(env_json: Path) -> None:
    """Use the MindSpore of this environment from now on.

    Raises DataError if it has none.
    """
    global _environment
    try:
        _environment = json.loads(env_json.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{env_json}: not an environment's env.json ({error})") from None
    if _environment.get("framework") != "mindspore" or _environment.get("status") != "ok":
        raise DataError(f"{env_json}: has no MindSpore; {FIX}")


def write(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    """Also writes the index, with .db appended to the name."""
    process = _mindspore()
    pickle.dump(("write", str(path)), process.stdin)
    for sample in samples:
        pickle.dump(dict(sample), process.stdin)
    pickle.dump(None, process.stdin)
    process.stdin.flush()
    _answer(process, path)
    for part in (path, path.with_name(f"{path.name}.db")):
        part.chmod(0o644)  # MindSpore makes them readable for their owner only


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Raises DataError if MindSpore cannot read the file."""
    process = _mindspore()
    pickle.dump(("read", str(path)), process.stdin)
    process.stdin.flush()
    while (sample := _answer(process, path)) is not None:
        yield sample


def _mindspore() -> subprocess.Popen:
    """The process that runs MindSpore. It is started once, because the import takes seconds."""
    global _process
    if _process is None or _process.poll() is not None:
        if not _environment:
            raise DataError(f"MindRecord is written by MindSpore; {FIX}")
        command = [_environment["interpreter"], "-m", "dlperf.prepare.formats.mindrecord"]
        environ = {**os.environ, **_environment.get("environ", {}), "PYTHONPATH": SCRIPTS}
        _process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ
        )
    return _process


def _answer(process: subprocess.Popen, path: Path) -> Any:
    try:
        answer = pickle.load(process.stdout)
    except EOFError:
        raise DataError(f"{path}: MindSpore ended with exit status {process.wait()}") from None
    if isinstance(answer, str):
        raise DataError(f"{path}: {answer}")
    return answer


def main() -> None:
    """Write and read files as standard input says, until it is closed."""
    from mindspore.mindrecord import FileReader, FileWriter

    # what MindSpore prints must not get between the pickles
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(value: Any) -> None:
        pickle.dump(value, answers)
        answers.flush()

    def told() -> Any:
        return pickle.load(sys.stdin.buffer)

    while True:
        try:
            what, path = told()
        except EOFError:
            return
        try:
            if what == "write":
                _write(FileWriter(path, shard_num=1, overwrite=True), told)
            else:
                reader = FileReader(path)
                for row in reader.get_next():
                    answer({name: _value(cell) for name, cell in row.items()})
                reader.close()
            answer(None)
        except Exception as error:  # MindSpore has many kinds of its own
            answer(f"MindSpore: {' '.join(str(error).split())}")


def _write(writer: Any, told: Any) -> None:
    rows: list[dict[str, Any]] = []
    first = True
    while (sample := told()) is not None:
        if first:
            writer.add_schema({name: _column(value) for name, value in sample.items()})
            first = False
        rows.append({name: _cell(value) for name, value in sample.items()})
        if len(rows) == COMMIT_EVERY:
            writer.write_raw_data(rows)
            rows = []
    if rows:
        writer.write_raw_data(rows)
    writer.commit()


def _column(value: Any) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"type": "bytes"}
    if isinstance(value, np.ndarray):
        return {"type": "float32" if value.dtype.kind == "f" else "int32", "shape": [-1]}
    return {"type": "int32"}


def _cell(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(np.float32 if value.dtype.kind == "f" else np.int32)
    return value


def _value(cell: Any) -> Any:
    if isinstance(cell, np.ndarray):
        return cell.tobytes() if cell.dtype == np.uint8 else cell
    return cell if isinstance(cell, bytes) else int(cell)


if __name__ == "__main__":
    main()
