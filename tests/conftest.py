"""Real parts for all tests: the repository's own environments, copies of it to work in."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import hypothesis
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
sys.path[:0] = [str(SCRIPTS), str(ROOT / "tests/support")]

from chromium import browser  # noqa: E402, F401  a fixture

from dlperf.environments import files  # noqa: E402
from dlperf.loaders import libraries  # noqa: E402
from dlperf.measure import gate, host  # noqa: E402

# A test does not fail because the machine is slow.
hypothesis.settings.register_profile("dlperf", deadline=None)
hypothesis.settings.load_profile("dlperf")


def pytest_terminal_summary(terminalreporter) -> None:
    """The seconds that each file's tests took, so that whoever adds one sees where time goes."""
    seconds: dict[str, float] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                file = report.nodeid.partition("::")[0]
                seconds[file] = seconds.get(file, 0) + report.duration
    terminalreporter.section("slowest files")
    for file in sorted(seconds, key=seconds.__getitem__, reverse=True)[:20]:
        terminalreporter.line(f"{seconds[file]:7.0f} s  {file}")


#: All that train every workload on a CPU.
CPU_FRAMEWORKS = (
    "pytorch",
    "tensorflow",
    "tensorflow1",
    "mxnet",
    "paddlepaddle",
    "oneflow",
    "mindspore",
    "jax",
)
CPU_ENVIRONMENTS = (*CPU_FRAMEWORKS, "deepspeed", "megatron")


def some_of(names: Iterable[str], *first: str) -> list:
    """For parametrize: `make test` takes those that come first, `make test-full` all of `names`."""
    return [name if name in first else pytest.param(name, marks=pytest.mark.full) for name in names]


def the_first(count: int, cases: Iterable, name: Callable[..., str | None] | None = None) -> list:
    """For parametrize: `make test` takes so many of the cases, `make test-full` all of them.

    name: the id of a case, where it has one. A plain tuple is a value for each argument.
    """
    return [
        pytest.param(
            *(each if type(each) is tuple else (each,)),
            id=name(each) if name else None,
            marks=[pytest.mark.full] * (place >= count),
        )
        for place, each in enumerate(cases)
    ]


def one_of_all(first: str) -> list:
    """All frameworks, of which `make test` takes this one."""
    return some_of(CPU_FRAMEWORKS, first)


def _proved() -> dict[tuple[str, str, str], str]:
    """The released certificates: (workload, framework, layout) -> path below results/.

    The layout of another variant than plain training has its name, and that of another precision
    than fp32 too: `infer-1`, `quality-1`, `amp-1`.
    """
    from dlperf import plan

    config = plan.load(ROOT / "config/rounds/released.yaml")
    return {
        (
            case.workload,
            case.framework,
            "-".join(filter(None, (case.precision.replace("fp32", ""), case.variant, case.proved))),
        ): case.certificate(config.device)
        for case in plan.expand(config)
        if not case.unsupported
    }


SMALL_ROUND = {
    "round": "small",
    "device": "cpu",
    "frameworks": ["pytorch", "mxnet"],
    "workloads": {
        "resnet50": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [2]},
            "data": ["sample"],
            "image_size": 32,
        }
    },
    "topologies": ["1n1d", "1n2d"],
    "repetitions": 2,
    "steps": {"warmup": 1, "measured": 2},
    "timeout_seconds": 120,
}

PROVED = _proved()
#: Those that `make test` makes anew: one of each framework, beside what other tests certify.
PROVED_SHORT = [
    *(("resnet50", framework, "1") for framework in ("mxnet", "jax")),
    ("resnet50", "pytorch", "dp2"),
    *(
        ("wide_deep", framework, "1")
        for framework in ("tensorflow", "tensorflow1", "paddlepaddle", "oneflow", "mindspore")
    ),
]


def no_bfloat16(framework: str, precision: str) -> str:
    """Why the framework's build needs another processor than this one for the precision, or ""."""
    name = f"{framework}.cpu"
    build = files.build_section(framework, name, ROOT / f"envs/{name}.yaml")
    needs = {"framework": framework, "version": "here", "bfloat16": build.bfloat16}
    return gate.no_bfloat16(needs, precision, host.facts(), host.name())


def skip_without_bfloat16(framework: str, precision: str) -> None:
    if reason := no_bfloat16(framework, precision):
        pytest.skip(reason)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One Snakemake at a time in a folder: tests run in two processes."""
    if folder != ROOT:
        yield
        return
    with locked("tests"):
        yield


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One at a time of all processes that run tests here."""
    (ROOT / "results").mkdir(exist_ok=True)
    with open(ROOT / f"results/.{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def snakemake(*arguments: str, cwd: Path = ROOT, check: bool = True, **options):
    """Run the real Snakemake with the local profile; its output is text."""
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local", *arguments]
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environ["COLUMNS"] = "1000"  # the logger folds paths that are wider, and tests read its lines
    with alone(cwd):
        done = subprocess.run(
            command, cwd=cwd, env=environ, text=True, capture_output=True, timeout=3300, **options
        )
    if check and done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done


@pytest.fixture(scope="session")
def environments() -> Path:
    """results/environments of all frameworks on CPUs, built by the workflow where missing."""
    names = [f"results/environments/{name}.cpu/env.json" for name in CPU_ENVIRONMENTS]
    snakemake("--", *names)
    for name in names:
        built = json.loads((ROOT / name).read_text())
        assert built["status"] == "ok", f"{name}: {built['reason']}"
    return ROOT / "results/environments"


@pytest.fixture(scope="session")
def dali(environments, tmp_path_factory) -> Path:
    """A folder with DALI as PyTorch's environment for CUDA has it, for environments of the CPU.

    PaddlePaddle's is the same version, built for another CUDA.
    """
    versions = set()
    for name in libraries.DALI:
        lock = (ROOT / f"envs/{name}.cuda.lock.txt").read_text()
        versions |= set(re.findall(r"^nvidia-dali-cuda\d+==(\S+)", lock, re.MULTILINE))
    assert len(versions) == 1, versions
    folder = tmp_path_factory.mktemp("dali")
    command = [ROOT / ".venv/bin/uv", "pip", "install", "--quiet", "--target", folder]
    command += ["--python", environments / "pytorch.cpu/bin/python"]
    command += ["--constraint", ROOT / "envs/pytorch.cuda.lock.txt", "nvidia-dali-cuda130"]
    subprocess.run(list(map(str, command)), check=True, timeout=600)
    return folder


def made_data(folder: str) -> Callable[[], Path]:
    """A fixture of that folder in results/data."""

    @pytest.fixture(scope="session")
    def made() -> Path:
        """Data, made by the workflow where missing."""
        snakemake("--", f"results/data/{folder}/manifest.json")
        return ROOT / "results/data" / folder

    return made


sample_data = made_data("sample")
prose = made_data("prose")
prose_tokens = made_data("prose-tokens")
squad_sample = made_data("squad-sample")
faces_sample = made_data("faces-sample")
criteo = made_data("criteo-sample-npz")


@pytest.fixture(scope="session")
def reference(environments, sample_data) -> Path:
    """results/certificates/resnet50/reference, made by the workflow where missing."""
    snakemake("--", "results/certificates/resnet50/reference/manifest.json")
    return ROOT / "results/certificates/resnet50/reference"


def remake_certificates(paths) -> None:
    """Make certificates here, although others come with the code."""
    snakemake("--config", "certificates=remake", "--", *(f"results/{path}" for path in paths))


@pytest.fixture(scope="session")
def certificates(environments, reference) -> Path:
    """results/certificates with PROVED_SHORT, made by the workflow where missing."""
    remake_certificates(PROVED[key] for key in PROVED_SHORT)
    return ROOT / "results/certificates"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator:
    """A real Slurm of four nodes. Without: a failure where CI=true, else the tests are skipped."""
    import cluster as slurm  # of tests/slurm/, which is on the path when its tests run

    with locked("slurm"):  # a machine has one /etc/slurm
        if problem := slurm.missing():
            if os.environ.get("CI") == "true":
                pytest.fail(problem)
            pytest.skip(problem)
        own = slurm.Cluster(tmp_path_factory.mktemp("slurm"))
        try:
            own.start()
            yield own
        finally:
            own.stop()
        assert not slurm.processes_of(str(own.folder)), "the cluster left processes"


@pytest.fixture
def heeding_ctrl_c() -> Iterator[None]:
    """What the test starts ends at SIGINT, although the tests may run in the background: a shell
    without job control starts them to ignore it, and what they start would inherit that."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.fixture
def in_background() -> Iterator[None]:
    """What the test starts ignores Ctrl-C and the end of its terminal, as `nohup` and a shell
    without job control (`make &` in a script) start it."""
    ignored = (signal.SIGINT, signal.SIGHUP)
    inherited = [signal.signal(number, signal.SIG_IGN) for number in ignored]
    yield
    for number, handler in zip(ignored, inherited, strict=True):
        signal.signal(number, handler)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_repository(tmp_path / "checkout")


@pytest.fixture(scope="session")
def measured_round(tmp_path_factory, certificates, sample_data) -> Path:
    """A copy of the repository in which `all` measured SMALL_ROUND; for tests that leave it so."""
    folder = copy_repository(tmp_path_factory.mktemp("measured") / "checkout")
    (folder / "config/config.yaml").write_text(yaml.safe_dump(SMALL_ROUND))
    snakemake("all", cwd=folder)
    return folder


def copy_repository(target: Path) -> Path:
    """A copy of the repository to run the workflow in, sharing environments and data.

    Everything that git would commit is copied, so that no result of the real folder is touched.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)
    (target / "results").mkdir(exist_ok=True)
    for shared in ("environments", "data", "certificates"):
        (ROOT / "results" / shared).mkdir(parents=True, exist_ok=True)
        (target / "results" / shared).symlink_to(ROOT / "results" / shared)
    return target
