"""OneFlow needs libraries from its interpreter's own folder, and a graph for mixed precision."""

from dlperf.frameworks import oneflow
from dlperf.frameworks.oneflow import process


def test_library_path_has_the_interpreters_nvidia_folders_first(tmp_path, monkeypatch):
    packages = tmp_path / "lib" / "python3.10" / "site-packages" / "nvidia"
    for name in ("cudnn", "cublas"):
        (packages / name / "lib").mkdir(parents=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/own")
    path = process.library_path(str(tmp_path / "bin" / "python"))
    assert path.split(":") == [
        str(packages / "cublas" / "lib"),
        str(packages / "cudnn" / "lib"),
        "/opt/own",
    ]


def test_amp_needs_a_gpu_and_a_graph():
    case = {"precision": "amp", "compiler": "graph", "device": "cuda"}
    assert not oneflow.unsupported(case)
    assert "CPU" in oneflow.unsupported(dict(case, device="cpu"))
    assert "graph" in oneflow.unsupported(dict(case, compiler="none"))


def test_what_a_graph_cannot_clip_on_a_cpu_it_still_infers():
    case = {"precision": "fp32", "compiler": "graph", "device": "cpu", "clip": 1}
    case.update(scenario="train", parallel={"accumulation": 1})
    assert "clips" in oneflow.unsupported(case)
    assert not oneflow.unsupported(dict(case, scenario="infer"))
