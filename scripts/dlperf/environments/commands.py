"""Runs the programs of a build, and turns their errors into a sentence for the user."""

import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

#: Settings of pip that have another name in uv. uv's own settings have priority.
FROM_PIP = {
    "UV_FIND_LINKS": "PIP_FIND_LINKS",
    "UV_DEFAULT_INDEX": "PIP_INDEX_URL",
    "UV_INDEX": "PIP_EXTRA_INDEX_URL",
}


class CommandFailed(Exception):
    """A program failed; the exception's text is the end of what it printed."""


def run(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    keep_open: Iterable[int] = (),
    timeout: float | None = None,
    hide: str = "\0",
) -> str:
    """Run a program, print its output line by line, and return it.

    Lines that start with `hide` are only returned.

    Its whole process group ends when this process is interrupted. The descriptors in `keep_open`
    stay open in it, so that a lock on them is held until the last child is gone, even when this
    process is killed. Raises CommandFailed.
    """
    said: deque[str] = deque(maxlen=400)
    with subprocess.Popen(
        list(command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
        start_new_session=True,
        pass_fds=tuple(keep_open),
        encoding="utf-8",
    ) as process:
        previous = signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(int(timeout or 0))
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if not line.startswith(hide):
                    sys.stdout.write(line)
                    sys.stdout.flush()
                said.append(line)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, TimeoutError):
                raise
            said.append(f"stopped after {timeout:.0f} s")
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
    if process.returncode:
        raise CommandFailed("".join(said))
    return "".join(said)


def _too_long(number: int, frame: object) -> None:
    raise TimeoutError


def uv_environ(find_links: Sequence[str] = ()) -> dict[str, str]:
    """This process's variables, with pip's settings for uv and with `find_links` first."""
    environ = dict(os.environ)
    for ours, pips in FROM_PIP.items():
        if pips in environ and ours not in environ:
            environ[ours] = environ[pips]
    links = [*find_links, *re.split(r"[\s,]+", environ.get("UV_FIND_LINKS", ""))]
    if any(links):
        environ["UV_FIND_LINKS"] = ",".join(dict.fromkeys(link for link in links if link))
    environ["UV_NO_PROGRESS"] = "1"
    environ.pop("VIRTUAL_ENV", None)
    return environ


def explain(output: str) -> str:
    """Why a program failed, in a paragraph without addresses."""
    text = without_addresses(output)
    if "No space left on device" in text:
        return "no space left on the disk"
    if match := re.search(r"[Hh]ash mismatch for [`']?([^`'\n]+?)[`']?\n", text):
        found = dict(re.findall(r"(Expected|Computed):\s+(sha256:[0-9a-f]+)", text))
        values = "".join(f"; {word.lower()} {value}" for word, value in found.items())
        return (
            f"wrong hash: {match[1]} is not the file that the lock names{values}. Either the index "
            "serves another build of it (a mirror, a folder in find_links) or the file was changed"
        )
    if match := re.search(r"no hashes were provided or computed for: (\S+)", text):
        return f"wrong hash: the index has {match[1]}, a build for which the lock has no hash"
    if re.search(r"dns error|error sending request|Failed to fetch|[Cc]onnection", text):
        return f"the package index cannot be reached: {_last(text, 3)}"
    return _last(text, 1 if "Traceback (most recent call last)" in text else 6)


def without_addresses(text: str) -> str:
    """The text with every web address replaced by '<address>'."""
    return re.sub(r"(?:https?|file)://[^\s`'\")]+", "<address>", text)


def _last(text: str, lines: int) -> str:
    kept = [line.strip() for line in text.splitlines() if line.strip()]
    return " · ".join(kept[-lines:])[-1200:] or "it printed nothing"
