"""A workload is one folder: docs/adding-a-workload.md, followed with a small network."""

import json
import shutil

import pytest
import yaml
from conftest import ROOT, snakemake

ROUND = {
    "round": "mlp",
    "device": "cpu",
    "frameworks": ["pytorch", "jax"],
    "workloads": {
        "mlp": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [4]},
            "data": ["sample"],
            "also": [
                {
                    "frameworks": ["pytorch"],
                    "layouts": [{"accumulation": 2}],
                    "topologies": ["1n2d"],
                }
            ],
        }
    },
    "topologies": ["1n1d", "1n2d"],
    "repetitions": 1,
    "steps": {"warmup": 1, "measured": 2},
}


@pytest.fixture
def with_mlp(checkout, environments, sample_data):
    """A copy of the repository with a folder more, and a round that asks for it."""
    (checkout / "results/certificates").unlink()  # the real folder gets none of a toy
    shutil.copytree(ROOT / "tests/support/mlp", checkout / "scripts/dlperf/workloads/mlp")
    (checkout / "config/config.yaml").write_text(yaml.safe_dump(ROUND))
    return checkout


def test_a_folder_gives_a_certified_and_measured_workload(with_mlp):
    snakemake("all", cwd=with_mlp)
    certificates = [
        json.loads(path.read_text())
        for path in (with_mlp / "results/certificates/mlp").glob("*/*.json")
        if path.parent.name != "reference"
    ]
    made = {(each["framework"], each["layout"]) for each in certificates}
    expected = {(framework, layout) for framework in ("pytorch", "jax") for layout in ("1", "dp2")}
    assert made == expected | {("pytorch", "dp2acc2")}
    for each in certificates:
        assert each["passed"], each["tiers"]
    page = (with_mlp / "results/mlp/report.html").read_text()
    assert "MLP training, fp32, batch 4 per device" in page
    # other metrics, on request
    wanted = "results/mlp/figures/mlp-train-fp32-b4-memory"
    snakemake(f"{wanted}.svg", "results/mlp/tables/mlp-train-fp32-b4-step_time.md", cwd=with_mlp)
    drawn = (with_mlp / f"{wanted}.svg").read_text()
    assert "peak memory per device, GiB (lower is better)" in drawn
    table = (with_mlp / "results/mlp/tables/mlp-train-fp32-b4-step_time.md").read_text()
    assert "ms, lower is better; in brackets the ratio to 1n1d" in table
