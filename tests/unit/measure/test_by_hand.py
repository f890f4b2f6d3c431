"""By hand: a case from options, ranks that keep PYTHONPATH, a certificate without env.json."""

import contextlib
import io
import json
import os
import subprocess
import sys

import pytest
from conftest import ROOT

from dlperf import frameworks, workloads
from dlperf.certify import long_run
from dlperf.contract.case import Known, load
from dlperf.measure import by_hand, host
from dlperf.measure.__main__ import main
from dlperf.workloads.cases import case_of

KNOWN = Known(workloads.NAMES, frameworks.NAMES, workloads.dimensions, workloads.data)
ASKED = ["--workload", "resnet50", "--framework", "pytorch"]


def printed(*options: str) -> dict:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        by_hand.main([*ASKED, *options])
    return json.loads(out.getvalue())


def message(*options: str, asked=ASKED) -> str:
    with pytest.raises(SystemExit) as stopped:
        by_hand.main([*asked, *options])
    return str(stopped.value)


def test_the_document_that_is_printed_is_one_that_the_stopwatch_takes(monkeypatch):
    monkeypatch.setattr(host, "visible_gpus", lambda: ["0"])
    document = printed()
    assert load(json.dumps(document), KNOWN) == document


def test_a_choice_that_a_case_leaves_out_is_the_standard_one():
    document = printed()
    del document["identity"]["fold"]
    assert load(json.dumps(document), KNOWN)["identity"]["fold"] == 0


def test_a_choice_of_another_scenario_is_refused():
    assert printed("--scenario", "infer", "--fold", "1")["identity"]["fold"] == 1
    assert message("--fold", "1").endswith(
        "identity.fold: 1; 0 but in the scenarios infer and server"
    )


def test_on_a_machine_with_a_gpu_it_is_mixed_precision_at_the_batch_that_is_published(monkeypatch):
    monkeypatch.setattr(host, "visible_gpus", lambda: ["0"])
    document = printed()
    assert (document["settings"]["device"], document["identity"]["precision"]) == ("cuda", "amp")
    assert (document["identity"]["batch_size"], document["identity"]["image_size"]) == (256, 224)
    steps = document["settings"]
    assert (steps["warmup_steps"], steps["measured_steps"]) == (20, 100)
    bert = printed("--workload", "bert")
    assert (bert["identity"]["batch_size"], bert["identity"]["sequence_length"]) == (64, 128)


def test_without_a_gpu_it_is_a_small_case_of_the_cpu(monkeypatch):
    monkeypatch.setattr(host, "visible_gpus", lambda: [])
    document = printed()
    assert (document["settings"]["device"], document["identity"]["precision"]) == ("cpu", "fp32")
    assert document["identity"]["batch_size"] == 8


@pytest.mark.parametrize("workload", workloads.NAMES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_workload_and_framework_has_a_case_by_default(workload, device):
    without = {  # their `unsupported` says why
        ("wide_deep", "cuda"): ("oneflow", "mindspore"),
        ("wide_deep", "cpu"): ("hugectr",),
        ("electra", "cuda"): ("oneflow",),
        ("electra_squad", "cuda"): ("oneflow",),
    }
    for framework in frameworks.NAMES:
        if framework in without.get((workload, device), ()):
            with pytest.raises(SystemExit, match=f"--framework {framework} --device {device}"):
                printed("--workload", workload, "--framework", framework, "--device", device)
        elif workloads.implements(workload, framework):
            document = printed(
                *("--workload", workload, "--framework", framework, "--device", device),
                *("--precision", "fp32"),
            )
            load(json.dumps(document), KNOWN)


def test_each_option_stands_where_the_document_has_it():
    document = printed(
        *("--device", "cuda", "--precision", "tf32", "--compiler", "inductor", "--devices", "2"),
        *("--batch-size", "512", "--image-size", "160", "--warmup-steps", "3", "--data", "sample"),
        *("--timeout-seconds", "90.5", "--round", "gpu", "--repetition", "4", "--seed", "7"),
    )
    identity, settings = document["identity"], document["settings"]
    assert case_of(identity).folder == (
        "resnet50/pytorch/train-tf32-inductor-1n2d-b512-sample-px160"
    )
    assert (identity["round"], identity["repetition"]) == ("gpu", 4)
    assert (settings["warmup_steps"], settings["timeout_seconds"], settings["seed"]) == (3, 90.5, 7)
    assert settings["data_dir"] == "results/data/sample"


def test_the_place_of_the_record_in_a_round_is_told_beside_the_document(capsys):
    printed("--device", "cuda", "--round", "gpu")
    place = "results/gpu/runs/resnet50/pytorch/train-amp-inductor-1n1d-b256-synthetic/rep1.json"
    assert capsys.readouterr().err.strip().endswith(place)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--workload resnet", "--workload: 'resnet'; did you mean 'resnet50'? [allowed: bert, "),
        ("--framework torch", "--framework: 'torch'; did you mean 'pytorch'? [allowed: "),
        ("--device gpu", "--device: 'gpu'; did you mean 'cuda'? [allowed: cpu, cuda]"),
        ("--precision fp16", "'fp16'; did you mean 'amp_fp16'? [allowed: fp32, tf32, amp, "),
        ("--compiler inductr", "'inductr'; did you mean 'inductor'? [allowed: none, inductor]"),
        ("--compiler xla", "--compiler: 'xla' [allowed: none, inductor]"),
        ("--data imagnet", "--data: 'imagnet'; did you mean 'imagenet'? [allowed: synthetic, "),
        (
            "--data imagenet",
            "--data: 'imagenet': its folder is a framework's own; name it by --data",
        ),
        ("--batch-size many", "--batch-size: 'many' is not a number [allowed: at least 1]"),
        ("--batch-size 0", "--batch-size: '0' [allowed: at least 1]"),
        ("--image-size 16", "--image-size: '16' [allowed: at least 32]"),
        ("--image-size 9999", "--image-size: 9999 [allowed: at most 1024]"),
        ("--timeout-seconds nan", "--timeout-seconds: 'nan' [allowed: at least 1]"),
        ("--sequence-length 64", "--sequence-length: no such option of resnet50"),
        ("--bach-size 4", "--bach-size: no such option of resnet50; did you mean '--batch-size'?"),
        ("--batch 4", "--batch: no such option of resnet50; did you mean '--batch-size'?"),
        ("--accumulation 2", "--accumulation: 2: ResNet-50 v1.5 has no such way"),
        ("--round a/b", "--round: 'a/b' [allowed: letters, digits"),
        ("--precision tf32 --device cpu", "--precision tf32 --compiler none: TF32 is a format of"),
        ("--scenario quality", "identity.epochs: 0; at least 1 in the scenario quality"),
        ("--epochs 2", "identity.epochs: 2; 0 but in the scenario quality"),
        (
            "--scenario quality --epochs 2 --evaluations 9",
            "settings.evaluations: 9; from 1 to measured_steps, ",
        ),
        ("--batch-size", "--batch-size: expected one argument"),
    ],
)
def test_a_mistake_ends_in_one_message_with_option_value_and_what_is_allowed(options, said):
    text = message(*options.split())
    assert said in text and "\n" not in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": 5}, "heads: 5 do not divide a width of 768"),
        ({"heads": 3, "tensor_parallel": 2}, "tensor_parallel: 2 does not divide 3 heads"),
        ({"layers": 3, "pipeline_parallel": 2}, "pipeline_parallel: 2 does not divide 3 layers"),
        ({"zero_stage": 2, "pipeline_parallel": 2}, "zero_stage: 2 exchanges gradients in each"),
    ],
)
def test_a_model_that_cannot_be_split_so_is_one_message(options, said):
    given = {"workload": "gpt", "framework": "pytorch", "device": "cpu", "devices_per_node": 4}
    with pytest.raises(by_hand.Mistake, match=said):
        by_hand.document({**given, **options})


def test_what_a_framework_does_not_do_is_told_with_its_own_reason():
    asked = ["--workload", "bert", "--framework", "jax", "--compiler", "none"]
    assert "ask for compiler xla" in message(asked=asked)


def measured(tmp_path, case: str, *more: str, **variables: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "dlperf.measure",
            "--case",
            "-",
            "--out",
            tmp_path / "r.json",
            *more,
        ],
        input=case,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_compiler_that_a_framework_lacks_is_refused_before_anything_starts(tmp_path):
    document = printed("--device", "cpu")
    document["identity"]["compiler"] = "xla"
    done = measured(tmp_path, json.dumps(document))
    assert done.returncode == 1
    assert done.stderr == "error: --case: identity.compiler: 'xla'; PyTorch has: none, inductor\n"
    assert not (tmp_path / "r.json").exists()


def test_what_is_no_document_on_standard_input_is_not_taken_for_a_path(tmp_path):
    done = measured(tmp_path, "case.json\n")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no case document on standard input" in done.stderr


@pytest.mark.parametrize("environment", [False, True], ids=["by hand", "of the workflow"])
def test_ranks_keep_the_users_pythonpath_unless_an_environment_has_all_they_need(
    tmp_path, environment
):
    """A sitecustomize there says which processes found it; the rank has no PyTorch, and ends."""
    folder, seen = tmp_path / "mine", tmp_path / "seen"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, sys\n"
        "with open(os.environ['SEEN'], 'a') as seen: print(*sys.orig_argv, file=seen)\n"
    )
    (tmp_path / "env.json").write_text(
        json.dumps({"status": "ok", "interpreter": sys.executable, "environ": {}})
    )
    done = measured(
        tmp_path,
        json.dumps(printed("--device", "cpu", "--image-size", "32", "--batch-size", "1")),
        *(["--environment", str(tmp_path / "env.json")] if environment else []),
        PYTHONPATH=f"{ROOT / 'scripts'}{os.pathsep}{folder}",
        SEEN=str(seen),
    )
    assert done.returncode == 0, done.stderr
    ranks = [line for line in seen.read_text().splitlines() if "dlperf.measure.rank" in line]
    assert len(ranks) == (0 if environment else 1)


def certified(tmp_path, *more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "dlperf.certify", *ASKED, "--reference", str(tmp_path)]
    return subprocess.run(
        [*command, "--data-dir", str(tmp_path), "--out", str(tmp_path / "certificate.json"), *more],
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_certificate_needs_no_env_json(tmp_path):
    """Where the reference failed it is written at once."""
    manifest = {"status": "failed", "reason": "no PyTorch", "provenance": {}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    done = certified(tmp_path)
    assert done.returncode == 0, done.stderr
    (tier,) = json.loads((tmp_path / "certificate.json").read_text())["tiers"]
    assert tier["reason"] == "failed: no PyTorch"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "manifest.json: no reference is there; make it: python -m dlperf.certify.reference"),
        (("--compiler", "xla"), "--compiler: 'xla'; PyTorch has: none, inductor"),
        (("--environment", "none.json"), "none.json: no such file"),
    ],
)
def test_what_a_certificate_needs_is_asked_for_without_a_traceback(tmp_path, more, said):
    done = certified(tmp_path, *more)
    assert done.returncode != 0
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_compilers_certificate_needs_the_references_long_run(tmp_path):
    """Made with the same code as the reference, before anything runs."""
    own = {"status": "ok", "variant": "", "provenance": {"code_sha256": "a"}}
    manifest = {**own, "parts": {"1": {"loss": [7.0]}}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    done = certified(tmp_path, "--compiler", "inductor")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert f"{tmp_path}/long.json: the reference has no long run beside it" in done.stderr
    assert "python -m dlperf.certify.long_run --workload" in done.stderr
    other = {**own, "provenance": {"code_sha256": "b"}}
    (tmp_path / "long.json").write_text(json.dumps(other))
    done = certified(tmp_path, "--compiler", "inductor")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "long.json: was made with other code or packages than the reference" in done.stderr


@pytest.mark.parametrize("option", ["--environment={}", "--environment {}"])
def test_a_long_run_without_pytorch_says_why(tmp_path, option):
    environment, out = tmp_path / "env.json", tmp_path / "long.json"
    environment.write_text(json.dumps({"status": "failed", "reason": "no lock"}))
    arguments = ["--workload", "resnet50", "--data-dir", str(tmp_path), "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        long_run.main([*arguments, *option.format(environment).split()])
    assert not ended.value.code
    found = json.loads(out.read_text())
    assert (found["status"], found["reason"]) == (
        "unavailable",
        "without PyTorch's environment: no lock",
    )


def test_the_command_that_prints_a_case_is_one_of_the_stopwatchs(capsys):
    main(["case", *ASKED, "--device", "cpu"])
    assert json.loads(capsys.readouterr().out)["identity"]["framework"] == "pytorch"
