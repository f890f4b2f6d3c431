"""Estimates what a round takes of a disk: bytes to download and to keep.

The input is cases and the measured sizes of environments. The estimates help people to decide
whether to start (durations.py has the seconds). No measurement depends on them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dlperf import environments
from dlperf.contract.case import Case
from dlperf.plan import data
from dlperf.plan.config import Config


class Build(NamedTuple):
    """An environment that is still to be built."""

    framework: str
    download_bytes: int
    size_bytes: int


def builds(config: Config, cases: Sequence[Case], results: Path = Path("results")) -> list[Build]:
    """The environments that the round needs and that are not built yet."""
    needed = {case.framework for case in cases if not case.unsupported}
    folders = {each: results / "environments" / f"{each}.{config.device}" for each in needed}
    missing = [
        (each, config.device)
        for each in config.all_frameworks
        if each in needed and environments.read(folders[each] / "env.json").get("status") != "ok"
    ]
    return builds_of(config, missing)


def builds_of(config: Config, asked: Sequence[tuple[str, str]]) -> list[Build]:
    """What is known of the sizes of environments, each a framework and a device.

    Where the config gives an interpreter, nothing is built.
    """
    found = []
    for framework, device in asked:
        if framework not in config.environments.interpreters:
            sizes = environments.estimate(framework, device)
            found.append(Build(framework, sizes["download_bytes"], sizes["size_bytes"]))
    return found


def free_bytes(results: Path = Path("results")) -> int:
    """The free space where results are written, even if the folder does not exist yet."""
    folder = results.resolve()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_disk(
    wanted: Sequence[Build], sets: Sequence[data.Data], results: Path = Path("results")
) -> str:
    """A message if environments and data that are to be made do not fit on the disk, else ''.

    Downloads are counted too, because the installer's cache keeps them.
    """
    needed = sum(each.size_bytes + each.download_bytes for each in wanted)
    needed += data.disk_bytes(sets)
    free = free_bytes(results)
    if needed <= free:
        return ""
    names = ", ".join(each.framework for each in wanted)
    what = [f"the environments of {names}"] if wanted else []
    what += [f"the data in {', '.join(each.folder for each in sets)}"] if sets else []
    return (
        f"too little disk: {' and '.join(what)} need about {gigabytes(needed)} with their "
        f"downloads, but {results}/ has {gigabytes(free)} free. Free some space, put {results}/ "
        "on another disk (a link is fine), or ask for fewer `frameworks`."
    )


def gigabytes(count: float) -> str:
    """Bytes for people: 4200000000 -> '4.2 GB'."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
