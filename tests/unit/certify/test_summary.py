"""docs/certificates-measured.md says what the certificates in certificates/ measured."""

from conftest import ROOT

from dlperf.certify import summary


def certificate(
    framework: str, variant: str = "", precision: str = "fp32", **measured: float | None
) -> dict:
    tiers = [{"name": "shapes", "measured": 0}]
    tiers += [{"name": name.replace("_", "-"), "measured": each} for name, each in measured.items()]
    return {
        "workload": "bert",
        "framework": framework,
        "variant": variant,
        "precision": precision,
        "tiers": tiers,
    }


def test_a_tier_has_its_least_and_its_largest_number_and_whose_that_is():
    made = summary.tables(
        [
            certificate("jax", timed_loss=0, timed_update=0.5, optimizer=1.04e-7, long_run=None),
            certificate("pytorch", timed_loss=2e-8, optimizer=1.03e-7),
            certificate("mxnet", timed_loss=3.14e-7, timed_largest=0),
            certificate("mxnet", "clip0", timed_loss=1e-9),
            certificate("mxnet", "clip0-infer", timed_outputs=0.0149),
        ]
    )
    training, inference = made.split("Inference:")
    assert training.splitlines() == [
        "Training:",
        "",
        "| tier | BERT-Base | BERT-Base, `clip0` |",
        "| --- | --- | --- |",
        "| `timed-loss` | 2.0e-08 to 3.1e-07 (MXNet) | 1.0e-09 (MXNet) |",
        "| `timed-update` | 0.5 (JAX) |  |",
        "| `optimizer` | 1.0e-07 |  |",
        "| `timed-largest` | 0 |  |",
        "",
    ]
    assert inference.splitlines()[-1] == "| `timed-outputs` | 0.015 (MXNet) |"


def test_a_workload_that_is_split_has_a_table_of_its_layouts():
    def of(framework, layout, measured, workload="gpt"):
        tiers = [
            {"name": "shapes", "measured": 0, "tolerance": 0},
            {"name": "float64-loss", "measured": None, "tolerance": None},
            {"name": "timed-loss", "measured": measured, "tolerance": 1e-6},
            {"name": "optimizer", "measured": 1e-7, "tolerance": 1e-5},
        ]
        named = {"workload": workload, "framework": framework, "layout": layout, "tiers": tiers}
        return {**named, "variant": "", "precision": "fp32"}

    made = summary.layouts(
        [
            of("pytorch", "dp2zero3", 0),
            of("pytorch", "1", 5e-7),
            of("jax", "tp2", 2.5e-8),
            of("jax", "dp2", 1e-7, "bert"),
            {**of("jax", "1", 9e-7), "precision": "amp"},
        ]
    )
    assert made.splitlines() == [
        "GPT by layout, shares of the tolerance:",
        "",
        "|  | `1` | `tp2` | `dp2zero3` |",
        "| --- | --- | --- | --- |",
        "| JAX |  | `timed-loss` 0.03 |  |",
        "| PyTorch | `timed-loss` 0.50 |  | `optimizer` 0.01 |",
    ]


def test_each_precision_has_a_table_of_its_own():
    made = summary.tables(
        [
            certificate("jax", precision="amp", timed_loss=3e-3),
            certificate("pytorch", timed_loss=2e-8),
            certificate("pytorch", "infer", "tf32", timed_outputs=1e-4),
        ]
    )
    assert [line for line in made.splitlines() if line.endswith(":")] == [
        "Training:",
        "Training, amp:",
        "Inference, tf32:",
    ]
    assert "| `timed-loss` | 2.0e-08 (PyTorch) |" in made
    assert "| `timed-loss` | 3.0e-03 (JAX) |" in made


def test_the_document_has_the_tables_of_the_certificates_that_are_there():
    """Where it fails: `PYTHONPATH=scripts .venv/bin/python -m dlperf.certify.summary`."""
    text = (ROOT / summary.DOCUMENT).read_text(encoding="utf-8")
    assert summary.BEGIN in text and summary.END in text
    assert summary.written(text, ROOT) == text
