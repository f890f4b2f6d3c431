"""What a rank on a GPU is started with: MXNet, PaddlePaddle, OneFlow, TensorFlow 1."""

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_runs import a_run

from dlperf import frameworks
from dlperf.contract.run import Run, Unsupported
from dlperf.frameworks import gpus, horovod
from dlperf.frameworks.mxnet import process

MULTI_TENSOR = "ONEFLOW_ENABLE_MULTI_TENSOR_MODEL_UPDATE"
FUSED_CAST = "ONEFLOW_FUSE_MODEL_UPDATE_CAST"

# framework, compiler, precision, what is set, to what
ON_A_GPU = [
    ("tensorflow1", "none", "fp32", "TF_SYNC_ON_FINISH", "0"),
    ("paddlepaddle", "static", "fp32", "FLAGS_max_inplace_grad_add", "8"),
    ("oneflow", "graph", "fp32", MULTI_TENSOR, "1"),
    ("oneflow", "graph", "amp", FUSED_CAST, "1"),
]


def variables(run: Run) -> dict[str, str]:
    return frameworks.load(run.framework).environment(run)


@pytest.mark.parametrize(("framework", "compiler", "precision", "name", "value"), ON_A_GPU)
def test_gpus_get_their_fast_settings_and_cpus_do_not(
    framework, compiler, precision, name, value, monkeypatch
):
    monkeypatch.delenv(name, raising=False)
    run = a_run(framework, compiler=compiler, precision=precision)
    assert variables(run)[name] == value
    on_cpu = a_run(framework, compiler=compiler, device="cpu", capability="", gpus=[])
    assert name not in variables(on_cpu)


@pytest.mark.parametrize(("framework", "compiler", "precision", "name", "value"), ON_A_GPU)
def test_a_users_own_setting_stays(framework, compiler, precision, name, value, monkeypatch):
    monkeypatch.setenv(name, "7")
    assert variables(a_run(framework, compiler=compiler, precision=precision))[name] == "7"


def test_oneflow_fuses_updates_in_a_graph_and_casts_in_mixed_precision_only():
    assert FUSED_CAST not in variables(a_run("oneflow", compiler="graph", precision="fp32"))
    assert MULTI_TENSOR not in variables(a_run("oneflow", compiler="none"))


def test_paddlepaddles_build_for_cuda_is_told_nothing_of_onednn():
    for compiler in ("none", "static", "cinn"):
        assert "FLAGS_use_onednn" not in variables(a_run("paddlepaddle", compiler=compiler))


@pytest.fixture
def python_with_horovod(tmp_path: Path) -> str:
    """An interpreter that finds a Horovod built for MXNet."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    (packages,) = tmp_path.glob("lib/python3*/site-packages")
    folder = packages / "horovod" / "mxnet"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("raise ImportError('it is not imported')")
    (folder / "mpi_lib.cpython-311-x86_64-linux-gnu.so").touch()
    return str(tmp_path / "bin" / "python")


def test_mxnets_gpus_meet_by_horovod_where_the_environment_has_it(python_with_horovod):
    run = a_run("mxnet", ranks=2, local_ranks=2, interpreter=python_with_horovod)
    found = variables(run)
    assert (found["HOROVOD_RANK"], found["HOROVOD_SIZE"]) == ("0", "2")
    assert "DMLC_ROLE" not in found
    assert frameworks.load("mxnet").services(run) == []
    assert not horovod.has(python_with_horovod, "tensorflow")


def test_horovods_symbols_do_not_reach_pillow(tmp_path, monkeypatch):
    """What Horovod loads with RTLD_GLOBAL has a libjpeg, by which Pillow's images are broken."""
    folder = tmp_path / "horovod" / "mxnet"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "__init__.py").write_text("import ctypes\nmode = ctypes.RTLD_GLOBAL\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert process.import_horovod().mode == ctypes.RTLD_LOCAL
    assert ctypes.RTLD_GLOBAL != ctypes.RTLD_LOCAL


def test_without_horovod_mxnets_gpus_meet_at_parameter_servers():
    run = a_run("mxnet", ranks=2, local_ranks=2)
    found = variables(run)
    assert found["DMLC_NUM_WORKER"] == "2"
    assert "HOROVOD_RANK" not in found
    assert len(frameworks.load("mxnet").services(run)) == 3


def test_on_cpus_mxnet_needs_no_horovod(python_with_horovod):
    run = a_run("mxnet", ranks=2, local_ranks=2, device="cpu", interpreter=python_with_horovod)
    assert "DMLC_ROLE" in variables(run)


@pytest.mark.parametrize(
    ("built", "seen", "message"),
    [
        (False, 0, "this build of MXNet has no CUDA"),
        (True, 0, "MXNet sees no GPU"),
        (True, [], "MXNet sees no GPU"),
    ],
)
def test_a_missing_gpu_is_named(built, seen, message):
    with pytest.raises(Unsupported, match=message):
        gpus.require("MXNet", built, seen)
    gpus.require("MXNet", True, 1)
