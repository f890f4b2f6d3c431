"""The workflow from another folder: as a module of another Snakefile, and by `snakemake -s`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import generated_round
import pytest
import yaml
from conftest import ROOT, SMALL_ROUND, the_first

CALLED = [str(Path(sys.executable).parent / "snakemake"), "--cores", "2"]
LOCAL = ["-s", str(ROOT / "Snakefile"), "--profile", str(ROOT / "profiles/local")]
FIGURE = "results/laptop/figures/resnet50-train-fp32-b8-throughput.svg"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The user's folder, whose name a shell and Snakemake could take for something else."""
    made = tmp_path / "my {speed} 'round'"
    made.mkdir()
    return made


def snakemake(folder: Path, *arguments: str, passes: bool = True, **environ: str) -> str:
    done = subprocess.run(
        [*CALLED, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        text=True,
        capture_output=True,
        timeout=600,
    )
    said = done.stdout + done.stderr
    assert (done.returncode == 0) == passes, said[-6000:]
    return said


def use(folder: Path, text: str, **config) -> None:
    """Write the user's own Snakefile, and mine.yaml."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(config))
    (folder / "Snakefile").write_text(text.replace("CHECKOUT", repr(str(ROOT / "Snakefile"))))


def jobs(said: str) -> dict[str, int]:
    return {name: int(n) for name, n in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}


# As a module


def test_all_rules_of_a_module_can_be_given_other_names(folder):
    module = "module dlperf:\n    snakefile: CHECKOUT\n    config: config\n"
    use(
        folder,
        f'configfile: "mine.yaml"\n{module}use rule * from dlperf as dlperf_*\n',
        **SMALL_ROUND,
    )
    planned = jobs(snakemake(folder, "-n"))
    assert planned["dlperf_repetition"] == 8 and planned["dlperf_all"] == 1
    said = snakemake(folder, "-p", "dlperf_plan")
    assert "Round small: 4 cases x 2 repetitions" in said
    assert (folder / "results/small/config.yaml").exists()


def test_a_module_leaves_its_users_rules_and_config_as_they_are(folder):
    """Another Snakefile's rules have their own PYTHONPATH; a key that both read is still there."""
    text = """
configfile: "mine.yaml"
module dlperf:
    snakefile: CHECKOUT
    config: config["speed"]
use rule * from dlperf
onstart:
    dlperf.onstart()
rule own:
    output: "own.txt"
    params: config["speed"]["out"]
    shell: "echo $PYTHONPATH {params} > {output}"
"""
    use(folder, text, title="mine", speed={**SMALL_ROUND, "out": "there"})
    said = snakemake(folder, "own", "plan", PYTHONPATH="/their/own")
    assert (folder / "own.txt").read_text() == "/their/own there\n"
    assert "Round small: " in said
    assert (folder / "results/.lock").exists()  # what onstart holds


def test_a_module_without_a_config_has_the_default_one(folder):
    module = "module dlperf:\n    snakefile: CHECKOUT\nuse rule * from dlperf\n"
    use(folder, module)
    assert "Round laptop: " in snakemake(folder, "plan")


def test_a_wrong_key_of_a_modules_config_is_told_once(folder):
    module = "module dlperf:\n    snakefile: CHECKOUT\n    config: config\nuse rule * from dlperf\n"
    use(folder, 'configfile: "mine.yaml"\n' + module, **SMALL_ROUND, repetition=3)
    said = snakemake(folder, "plan", passes=False)
    assert said.count("mine.yaml: repetition: ") == 1 and "Traceback" not in said


@pytest.mark.parametrize(
    "paths", the_first(1, ['prefix: "speed"', 'replace_prefix: {"results/": "speed/"}'])
)
def test_a_module_that_moves_results_is_refused(folder, paths):
    use(folder, f"module dlperf:\n    snakefile: CHECKOUT\n    {paths}\nuse rule * from dlperf\n")
    said = snakemake(folder, "-n", passes=False)
    assert "module dlperf: `prefix` and `replace_prefix` are not supported" in said


def test_the_catalog_names_profiles_that_are_there():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    flags = usage["mandatory-flags"]
    named = re.findall(r"--profile (\w+)", flags["desc"] + " " + flags["flags"])
    assert set(named) == {"local", "slurm", "conda"}
    assert all((ROOT / name / "config.yaml").is_file() for name in named)


# By -s


def test_a_folder_without_a_config_has_the_default_one(folder):
    assert "Round laptop: " in snakemake(folder, *LOCAL, "plan")
    assert (folder / "results/laptop/config.yaml").exists()


def test_a_config_in_that_folder_comes_first(folder):
    (folder / "config").mkdir()
    (folder / "config/config.yaml").write_text(yaml.safe_dump(SMALL_ROUND))
    assert "Round small: " in snakemake(folder, *LOCAL, "plan")


def test_a_figure_of_records_in_that_folder(folder):
    """Of the project come peaks, code and captions; of the folder, config, records and the rest."""
    config = generated_round.config(frameworks=["pytorch"], topologies=["1n1d"])
    generated_round.write_round(folder, config)
    (folder / "mine.yaml").write_text(yaml.safe_dump(config))
    snakemake(folder, *LOCAL, "--configfile", "mine.yaml", "--", FIGURE)
    assert (folder / FIGURE).read_text().startswith("<?xml")
    snakemake(folder, *LOCAL, "--configfile", "mine.yaml", "--report", "report.html", "--", FIGURE)
    assert Path(FIGURE).name in (folder / "report.html").read_text()


def publication(folder: Path, name: str, *rows: dict[str, str], separator: str = ",") -> None:
    """A CSV in the form of docs/importing.md and the YAML file by which it is found."""
    published = folder / "config/published"
    published.mkdir(parents=True, exist_ok=True)
    values = {
        **{"framework": "pytorch", "implementation": "mine", "workload": "resnet50"},
        **{"scenario": "train", "precision": "fp32", "compiler": "none"},
        **{"nodes": "1", "devices_per_node": "1", "batch_size": "8", "data": "imagenet"},
        **{"repetition": "1", "metric": "throughput", "value": "14.2", "unit": "images/s"},
        **{"estimator": "wall_clock", "source": "a page", "note": ""},
    }
    lines = [separator.join(values)]
    lines += [separator.join({**values, **row}.values()) for row in rows]
    (published / f"{name}.csv").write_text("\n".join(lines))
    files = [f"config/published/{name}.csv"]
    said = {"round": f"imported-{name}", "title": "T", "files": files}
    (published / f"{name}.yaml").write_text(yaml.safe_dump(said))


def test_publications_of_the_project_and_of_that_folder(folder):
    publication(folder, "mine", {})
    targets = [f"results/imported-{name}/config.yaml" for name in ("nvidia-electra", "mine")]
    snakemake(folder, *LOCAL, "--", *targets)
    assert all((folder / target).exists() for target in targets)


def test_a_publication_is_found_by_its_yaml_and_its_page_rests_on_its_own_files(folder):
    """One has no figure, one scales above its devices; then comes one that cannot be read."""
    latency = {"scenario": "infer", "metric": "latency", "value": "4.5", "unit": "ms"}
    publication(folder, "latency", latency)
    publication(folder, "fast", {}, {"devices_per_node": "8", "value": "200"})
    snakemake(folder, *LOCAL, "--", "replay")
    pages = {path.parent.name: path.read_text() for path in folder.glob("results/*/report.html")}
    assert set(pages) == {"imported-latency", "imported-fast"}
    above = "14.08 times one device, on 8 devices"
    assert above in pages["imported-fast"] and above not in pages["imported-latency"]
    assert above in (folder / "results/imported/contradictions.md").read_text()

    publication(folder, "semicolons", {}, separator=";")
    publication(folder, "empty")
    for name, message in (
        ("semicolons", "its fields are separated by semicolons"),
        ("empty", "has a header and no rows"),
    ):
        target = f"results/imported-{name}/report.html"
        said = " ".join(snakemake(folder, *LOCAL, "--", target, passes=False).split())
        assert message in said and "Traceback" not in said
    (folder / "config/published/latency.csv").touch()
    snakemake(folder, *LOCAL, "--", "results/imported-latency/report.html")
    renamed = folder / "config/published/other.yaml"
    renamed.write_text((folder / "config/published/fast.yaml").read_text())
    target = "results/imported-other/report.html"
    said = " ".join(snakemake(folder, *LOCAL, "--", target, passes=False).split())
    assert "results/imported-other: is not the folder of the round 'imported-fast' of" in said
    assert "Traceback" not in said
