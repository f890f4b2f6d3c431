"""The command that draws a round's figures together: all of them, or those of some files."""

from analysed_round import NAME, SMALL, analyse
from generated_round import write_round

from dlperf.analysis.__main__ import main

SPEED, SCALING = f"{NAME}-throughput", f"{NAME}-scaling"


def test_all_figures_are_drawn_or_those_that_are_named(tmp_path, capsys):
    results = write_round(tmp_path, SMALL)
    analyse(results)
    figures = results / "figures"
    command = ["figures", "--config", str(results / "config.yaml")]
    command += ["--cells", str(results / "cells.tsv")]

    def drawn() -> set[str]:
        """The files that are there, which are then removed."""
        found = set(figures.glob("*"))
        for path in found:
            path.unlink()
        return {path.name for path in found}

    assert main(command) == 0
    every = drawn()
    assert every == {f"{name}.{kind}" for name in (SPEED, SCALING) for kind in ("svg", "png")}
    assert main([*command, "--only", str(figures / f"{SCALING}.svg")]) == 0
    assert drawn() == {f"{SCALING}.svg", f"{SCALING}.png"}
    assert main([*command, "--only", *(str(figures / name) for name in every)]) == 0
    assert drawn() == every

    assert main([*command, "--only", str(figures / f"{SPEED}s.svg")]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: no figure '{SPEED}s' in this round; did you mean '{SPEED}'?")
    assert not drawn()
