"""What an auditor's own machine is like does not speak against a round that is honest."""

import os
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import analysis_steps
import disks
import generated_round
import pytest
from conftest import ROOT
from fontTools.ttLib import TTFont
from matplotlib import get_data_path

from dlperf.analysis.__main__ import main

#: Settings of a user's that change every figure.
MATPLOTLIBRC = """
font.family: serif
font.size: 20
axes.linewidth: 3
axes.grid: True
axes.formatter.use_locale: True
figure.dpi: 33
lines.linewidth: 9
path.sketch: 5, 100, 2
savefig.dpi: 10
svg.fonttype: path
text.usetex: True
"""
#: Python then takes every text for ASCII, where it is not told otherwise.
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    config = generated_round.config(frameworks=["pytorch"], topologies=["1n1d"], repetitions=2)
    made = generated_round.write_round(tmp_path_factory.mktemp("made"), config)
    analysis_steps.everything(made)
    return made


def command(folder: Path, out: Path) -> list[str]:
    module = [sys.executable, "-m", "dlperf.analysis"]
    return [*module, "audit", "--round", str(folder), "--out", str(out)]


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT / "scripts"), **more}


def wide_font(path: Path) -> None:
    """A font of the name that figures ask for, whose letters are half as wide again."""
    font = TTFont(Path(get_data_path(), "fonts/ttf/DejaVuSans.ttf"))
    widths = font["hmtx"].metrics
    for name, (width, left) in widths.items():
        widths[name] = (width + width // 2, left)
    path.parent.mkdir(parents=True)
    font.save(path)


def test_a_users_own_settings_fonts_and_locale_change_nothing(folder, tmp_path):
    for place in (tmp_path / "work", tmp_path / "home/.config/matplotlib", tmp_path / "rc"):
        place.mkdir(parents=True)
        (place / "matplotlibrc").write_text(MATPLOTLIBRC)
    for place in (".fonts", ".local/share/fonts"):
        wide_font(tmp_path / "home" / place / "DejaVuSans.ttf")
    home = {"HOME": str(tmp_path / "home"), "MATPLOTLIBRC": str(tmp_path / "rc")}
    done = subprocess.run(
        command(folder, tmp_path / "audit.tsv"),
        cwd=tmp_path / "work",
        env=environ(**home, MPLBACKEND="none", **ASCII),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing differs." in done.stdout


@pytest.mark.parametrize(
    "limit, said", [("-f 100", "larger than files may be"), ("-n 12", "too many files are open")]
)
def test_a_limit_of_the_auditors_is_no_difference(folder, tmp_path, limit, said):
    limited = ["sh", "-c", f'ulimit {limit} && exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, *command(folder, tmp_path / "audit.tsv")],
        env=environ(),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    could_not(done, said)
    assert not (tmp_path / "audit.tsv").exists()


def test_a_full_disk_of_the_auditors_is_no_difference(folder, tmp_path):
    small = 'mount -t tmpfs -o size=300k none "$0"; '
    (tmp_path / "temporary").mkdir()
    own = environ(TMPDIR=str(tmp_path / "temporary"))
    asked = command(folder, tmp_path / "audit.tsv")
    could_not(disks.run(asked, tmp_path / "temporary", small, env=own), "the disk is full")


def could_not(done: subprocess.CompletedProcess[str], said: str) -> None:
    assert done.returncode == 1
    assert done.stderr.startswith("error: the audit could not be done: ") and said in done.stderr
    assert "Traceback" not in done.stderr and "differ" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "error, said",
    [
        (PermissionError(13, "Permission denied", "runs/rep1.json"), "may not be read or written"),
        (MemoryError(), "out of memory"),
        (BrokenProcessPool(), "a process of it was ended"),
    ],
)
def test_what_a_user_may_not_or_cannot_read_is_no_difference(
    folder, tmp_path, monkeypatch, capsys, error, said
):
    def merge(*arguments: object, **more: object) -> None:
        raise error

    monkeypatch.setattr("dlperf.analysis.round.merge.merge", merge)
    out = tmp_path / "audit.tsv"
    assert main(["audit", "--round", str(folder), "--out", str(out)]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("error: the audit could not be done: ") and said in printed.err
    assert "differ" not in printed.out + printed.err
