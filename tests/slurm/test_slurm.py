"""A real Slurm of four nodes: rounds over several nodes, and what clusters do to jobs; by hand too.

The nodes are one machine's, so times mean nothing; who ran where, and what is left, does.
"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import cluster as slurm
import pytest
import yaml
from conftest import CPU_FRAMEWORKS, ROOT, SMALL_ROUND, copy_repository
from edits import assignment, edit_file

from dlperf import frameworks, plan, workloads
from dlperf.contract.layout import Layout

ROUND = {
    **SMALL_ROUND,
    "round": "four",
    "frameworks": ["pytorch"],
    "topologies": ["1n1d", "2n1d"],
    "repetitions": 1,
    "timeout_seconds": 600,
}
LONG = {"warmup": 1, "measured": 10000}  # never done within the timeout


@pytest.fixture
def site(cluster, environments, sample_data, tmp_path) -> Iterator[Path]:
    """A checkout with ROUND and the profile as this cluster's operator would set it.

    In the end neither jobs nor processes of it are left.
    """
    cluster.wait_for_nodes()
    folder = copy_repository(tmp_path / "checkout")
    ask(folder)
    profile = folder / "profiles/slurm/config.yaml"
    text = profile.read_text()
    for old, new in (("interface: ''", "interface: lo"), ("status-checks: 10", "status-checks: 1")):
        assert old in text
        text = text.replace(old, new)
    profile.write_text(text)
    yield folder
    left = wait_until(lambda: not cluster.jobs() and not slurm.processes_of(str(folder)), 120)
    processes = slurm.processes_of(str(folder))
    for pid in processes:
        os.kill(pid, signal.SIGKILL)
    assert left, f"jobs {cluster.jobs()}, processes {processes}"


def ask(folder: Path, **changes) -> None:
    (folder / "config/config.yaml").write_text(yaml.safe_dump({**ROUND, **changes}))


def record_of(topology: str, repetition: int = 1) -> str:
    case = f"train-fp32-{topology}-b2-sample-px32"
    return f"results/four/runs/resnet50/pytorch/{case}/rep{repetition}.json"


def measured(folder: Path) -> list[dict]:
    """The records of the round that is asked for, one of each case, measured as jobs of Slurm."""
    cases = plan.expand(plan.load(folder / "config/config.yaml"))
    names = [f"results/four/runs/{case.folder}/rep1.json" for case in cases]
    assert run(folder, *names) == 0, log_of(folder)
    records = [read(folder, name) for name in names]
    for case, record in zip(cases, records, strict=True):
        assert record["status"] == "ok", record["reason"]
        nodes = {window["node"] for window in record["window"]}
        assert len(nodes) == record["identity"]["nodes"] and nodes <= set(slurm.NODES)
        assert record["provenance"]["scheduler_job"].isdigit()
        mesh = case.layout.mesh(case.devices)
        shared = not mesh.is_split and workloads.is_split(case.workload, case.dimensions, mesh)
        different = len({rank["sha256"] for rank in record["weights"]})
        wanted = case.devices if shared else case.layout.devices_per_replica
        assert different == wanted, "the same on every replica, but what ranks share out"
    return records


def start(folder: Path, *targets: str) -> subprocess.Popen:
    """`snakemake --profile slurm TARGETS`, as an operator starts it."""
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "slurm", *targets]
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    out = (folder / "snakemake.log").open("ab")
    return subprocess.Popen(command, cwd=folder, env=environ, stdout=out, stderr=out)


#: What ends by itself has so long: a busy machine takes four times what a quiet one does.
PATIENCE = 900


def run(folder: Path, *targets: str) -> int:
    return start(folder, *targets).wait(PATIENCE)


def log_of(folder: Path) -> str:
    return (folder / "snakemake.log").read_text()


def read(folder: Path, name: str) -> dict:
    return json.loads((folder / name).read_text())


def ranks_of(folder: Path) -> list[int]:
    """The ranks that train in the folder, in the order of their start."""
    found = []
    for pid in slurm.processes_of(str(folder)):
        with contextlib.suppress(OSError):  # it has ended
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"dlperf.measure.rank" in words:
                found.append(pid)
    return sorted(found)


def wait_until(done: Callable[[], object], seconds: float) -> object:
    deadline = time.monotonic() + seconds
    while not (answer := done()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def start_and_wait_for_ranks(folder: Path, *targets: str) -> tuple[subprocess.Popen, dict]:
    """Snakemake, and by job id the ranks of each, once they have started: two a target."""
    snakemake = start(folder, *targets)
    count = 2 * len(targets)
    assert wait_until(lambda: len(ranks_of(folder)) == count, 400), log_of(folder)
    time.sleep(3)  # into the training
    jobs: dict[str, list[int]] = {}
    for pid in ranks_of(folder):
        words = Path(f"/proc/{pid}/environ").read_bytes().decode()
        jobs.setdefault(re.search(r"\0SLURM_JOB_ID=(\d+)", words)[1], []).append(pid)
    return snakemake, jobs


def release(cluster: slurm.Cluster, job: str) -> None:
    """Let a job that went back into the queue start at once: Slurm holds it for two minutes."""
    pending = ["squeue", "-h", "-j", job, "-t", "PENDING", "-o", "%i"]
    assert wait_until(lambda: cluster.run(*pending).strip() == job, 120), f"{job} goes on"
    time.sleep(5)  # until its nodes have cleared up
    cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")


def test_screening_without_nodes_says_where_to_name_them(site):
    assert run(site, "screen") != 0
    assert "config/config.yaml: cluster.nodes: names no node" in log_of(site)


def test_a_round_over_one_and_two_nodes(cluster, site):
    assert run(site, record_of("1n1d"), record_of("2n1d")) == 0, log_of(site)
    one, two = read(site, record_of("1n1d")), read(site, record_of("2n1d"))
    assert (one["status"], two["status"]) == ("ok", "ok"), two["reason"]
    names = [window["node"] for window in two["window"]]
    assert names[0] < names[1] and set(names) < set(slurm.NODES)  # whichever were free
    assert [node["hostname"] for node in two["host"]["nodes"]] == names
    jobs = {each["provenance"]["scheduler_job"] for each in (one, two)}
    assert len(jobs) == 2 and all(each.isdigit() for each in jobs)
    assert two["parity"]["network_interface"] == "lo"
    assert one["steps"]["loss"] != two["steps"]["loss"]
    asked = cluster.run("scontrol", "show", "job", two["provenance"]["scheduler_job"])
    assert "NumNodes=2" in asked and "OverSubscribe=NO" in asked

    # the same round goes on elsewhere: nothing is measured again
    names = [record_of("1n1d"), record_of("2n1d")]
    before = [(site / name).stat().st_mtime_ns for name in names]
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local", *names]
    subprocess.run(command, cwd=site, env=environ, check=True, capture_output=True)
    assert [(site / name).stat().st_mtime_ns for name in names] == before


@pytest.mark.full
@pytest.mark.full
def test_a_round_of_electra_with_micro_steps_over_two_nodes(cluster, site):
    facts = site / "scripts/dlperf/workloads/electra/facts.py"
    edit_file(assignment("LAYERS", "1"), facts)  # of each: seconds
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [1]},
        "data": ["sample"],
        "sequence_length": 16,
        "layouts": [{}, {"accumulation": 2}],
    }
    ask(site, workloads={"electra": section})
    records = measured(site)
    layouts = {(r["identity"]["nodes"], r["identity"]["layout"]["accumulation"]) for r in records}
    assert layouts == {(1, 1), (1, 2), (2, 1), (2, 2)}
    for record in records:
        identity = record["identity"]
        assert record["samples"] == 2 * identity["nodes"] * identity["layout"]["accumulation"]
        # untrained: ln 30522 of a word, and 50 x ln 2 of original or not
        assert 40 < record["steps"]["loss"][0] < 50


@pytest.mark.full
def test_a_round_of_wide_and_deep_with_tables_that_two_nodes_share(cluster, site):
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [64]},
        "data": ["sample"],
        "vocabulary": 15600,
        "tables": ["replicated", "sharded"],
    }
    ask(site, workloads={"wide_deep": section}, topologies=["2n1d"])
    whole, shared = measured(site)
    assert [each["identity"]["tables"] for each in (whole, shared)] == ["replicated", "sharded"]
    assert "rows_of_tables" not in whole["parity"]
    assert shared["parity"]["rows_of_tables"] == "all-to-all"
    # untrained: ln 2 of a click; each has drawn seeds of its own
    for record in (whole, shared):
        assert record["steps"]["loss"][0] == pytest.approx(0.69, abs=0.02)


@pytest.mark.full
def test_a_round_of_insightface_with_centres_that_two_nodes_share(cluster, site, faces_sample):
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [8]},
        "data": ["sample"],
        **{"backbone": ["y1"], "image_size": 48},
        "num_classes": 1001,  # one node has a row less than the other
        "head": ["data", "model", "partial"],
    }
    ask(
        site,
        frameworks=["pytorch", "jax"],
        workloads={"insightface": section},
        topologies=["2n1d"],
    )
    records = measured(site)
    losses = {
        (each["identity"]["framework"], each["identity"]["head"]): each["steps"]["loss"][0]
        for each in records
    }
    assert len(losses) == 6
    # a head has drawn seeds of its own, which are the same for both frameworks
    for head in ("data", "model"):
        assert losses["jax", head] == pytest.approx(losses["pytorch", head], rel=1e-5)
    # which centres are sampled, each framework draws by itself
    assert losses["jax", "partial"] == pytest.approx(losses["pytorch", "partial"], rel=0.02)


@pytest.mark.full
def test_a_round_of_gpt_that_is_split_over_two_nodes(cluster, site):
    section = {
        "precisions": ["fp32"],
        "batch_sizes": {"fp32": [2]},
        "data": ["sample"],
        **{"width": 32, "layers": 2, "heads": 2, "sequence_length": 16},
        "layouts": [
            {"tensor_parallel": 2},
            {"tensor_parallel": 2, "pipeline_parallel": 2, "accumulation": 2},
        ],
    }
    frameworks = ["pytorch", "jax", "oneflow", "paddlepaddle"]
    ask(site, frameworks=frameworks, workloads={"gpt": section}, topologies=["2n2d"])
    records = measured(site)
    assert len(records) == 8
    for record in records:
        # untrained: ln 51200 of a token; four samples an update, of two replicas or micro-steps
        assert record["steps"]["loss"][0] == pytest.approx(10.84, abs=0.1)
        assert record["samples"] == 2 * 4
    # the same global batches, however they are split
    losses = [record["steps"]["loss"] for record in records]
    assert all(each == pytest.approx(losses[0], abs=0.02) for each in losses)


def test_a_certificate_over_two_nodes_is_a_job_of_two_nodes(cluster, site):
    path = "results/certificates/resnet50/pytorch/cpu-fp32-dp2-2n.json"
    (site / path).unlink(missing_ok=True)  # of an earlier call: checkouts share certificates
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(Path(sys.executable).parent / "snakemake"), "--profile", "local", path]
    subprocess.run(command, cwd=site, env=environ, check=True, capture_output=True)
    here = read(site, path)
    assert not here["passed"] and "snakemake --profile slurm" in here["tiers"][0]["reason"]

    assert run(site, path) == 0, log_of(site)
    there = read(site, path)
    assert there["passed"], there["tiers"]
    assert (there["layout"], there["provenance"]["nodes"]) == ("dp2-2n", 2)


@pytest.mark.full
def test_repetitions_of_a_case_can_share_a_job(cluster, site):
    slurm.share_jobs(site / "profiles/slurm/config.yaml")
    ask(site, repetitions=2)
    names = [record_of("1n1d"), record_of("1n1d").replace("rep1", "rep2")]
    assert run(site, *names) == 0, log_of(site)
    first, second = sorted(
        (read(site, name) for name in names), key=lambda record: record["window"][0]["start"]
    )
    assert first["status"] == second["status"] == "ok"
    one, other = first["provenance"], second["provenance"]
    assert one["scheduler_job"] == other["scheduler_job"] != ""
    assert one["scheduler_job_start_utc"] == other["scheduler_job_start_utc"] != ""
    assert one["end_utc"] <= other["start_utc"], "one after the other"


def test_a_node_that_is_lost_and_a_job_that_is_cancelled_cost_an_attempt_each(cluster, site):
    ask(site, steps={"warmup": 1, "measured": 30}, repetitions=2)
    names = [record_of("2n1d", 1), record_of("2n1d", 2)]
    snakemake, (first, second) = start_and_wait_for_ranks(site, *names)
    node = cluster.run("squeue", "-h", "-j", first, "-o", "%B").strip()
    cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    cluster.run("scancel", second)
    release(cluster, first)
    assert snakemake.wait(PATIENCE) == 0, log_of(site)
    records = [read(site, name) for name in names]
    assert {record["status"] for record in records} == {"ok"}
    jobs = {record["provenance"]["scheduler_job"] for record in records}
    assert first in jobs and second not in jobs  # one went back into the queue, one was sent anew
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", first)


@pytest.mark.full
def test_a_job_that_is_preempted_goes_back_into_the_queue(cluster, site):
    ask(site, steps={"warmup": 1, "measured": 30})
    snakemake, (job,) = start_and_wait_for_ranks(site, record_of("2n1d"))
    urgent = ["--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null"]
    cluster.run("sbatch", *urgent, "--wrap", "sleep 2")
    release(cluster, job)
    assert snakemake.wait(PATIENCE) == 0, log_of(site)
    record = read(site, record_of("2n1d"))
    assert record["status"] == "ok", record["reason"]
    assert record["provenance"]["scheduler_job"] == job
    assert "Restarts=1" in cluster.run("scontrol", "show", "job", job)


@pytest.mark.full
def test_a_job_over_its_time_limit_leaves_no_record(cluster, site):
    ask(site, steps=LONG)
    tight = ["--set-resources", "repetition:runtime=1", "--retries", "0"]
    assert run(site, *tight, "--", record_of("1n1d")) == 1
    assert "SLURM status is: 'TIMEOUT'" in log_of(site)
    assert not (site / record_of("1n1d")).exists()


@pytest.mark.full
def test_a_job_over_its_memory_limit_leaves_no_record(cluster, site):
    """Less than Snakemake itself takes in a job: this cluster does not see the memory of ranks."""
    ask(site, steps=LONG)
    tight = ["--set-resources", "repetition:mem_mb=100", "--retries", "0"]
    assert run(site, *tight, "--", record_of("1n1d")) == 1
    assert "SLURM status is: 'FAILED'" in log_of(site)
    assert not (site / record_of("1n1d")).exists()


@pytest.fixture
def small_disk(site) -> Iterator[Path]:
    """The round's results on a disk of its own of 4 MB."""
    folder = site / "results/four"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "dlperf", str(folder)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        pytest.skip(f"no disk of its own: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.full
def test_a_full_disk_costs_what_cannot_be_written(cluster, site, small_disk):
    assert run(site, record_of("1n1d")) == 0, log_of(site)
    before = (site / record_of("1n1d")).read_bytes()
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(4096))
    assert run(site, "--retries", "0", "--", record_of("2n1d")) == 1
    assert not (site / record_of("2n1d")).exists()
    filler.unlink()
    assert run(site, record_of("1n1d"), record_of("2n1d")) == 0, log_of(site)
    assert (site / record_of("1n1d")).read_bytes() == before
    assert read(site, record_of("2n1d"))["status"] == "ok"


@pytest.mark.full  # without Slurm, tests/stopwatch shows it
def test_a_killed_rank_is_a_crash_and_a_hung_one_a_timeout(cluster, site):
    names = [record_of("2n1d", 1), record_of("2n1d", 2)]
    ask(site, steps=LONG, timeout_seconds=60, repetitions=2)
    snakemake, jobs = start_and_wait_for_ranks(site, *names)
    killed, hung = jobs
    os.kill(jobs[killed][1], signal.SIGKILL)
    os.kill(jobs[hung][1], signal.SIGSTOP)
    assert snakemake.wait(PATIENCE) == 0, log_of(site)
    records = {
        each["provenance"]["scheduler_job"]: each for each in map(partial(read, site), names)
    }
    assert records[killed]["status"] == "crashed"
    assert re.search(r"rank [01]: (ended with signal 9|.*onnection)", records[killed]["reason"])
    assert records[hung]["status"] == "timeout"
    assert re.search(r"rank [01] in ", records[hung]["reason"])

    ask(site, repetitions=2, retry=["crashed", "timeout"])
    assert run(site, *names) == 0, log_of(site)
    assert {read(site, name)["status"] for name in names} == {"ok"}
    kept = site / "results/four/attempts/resnet50/pytorch/train-fp32-2n1d-b2-sample-px32"
    assert len(list(kept.iterdir())) == 4  # those that failed, too


@pytest.mark.full  # without Slurm, tests/workflow/test_rounds.py shows it
def test_snakemake_is_killed_started_twice_and_the_controller_restarted(cluster, site):
    ask(site, steps={"warmup": 1, "measured": 60})
    snakemake, _ = start_and_wait_for_ranks(site, record_of("2n1d"))
    assert run(site, record_of("1n1d")) == 1
    assert "another Snakemake is at work in this folder" in log_of(site)

    cluster.end(cluster.folder / "slurmctld.pid")
    time.sleep(2)
    cluster.start_controller()
    time.sleep(2)
    assert snakemake.poll() is None, log_of(site)

    snakemake.kill()
    snakemake.wait()
    cluster.wait_for_no_job(400)  # its job goes on and ends by itself
    before = (site / record_of("2n1d")).read_bytes()
    assert json.loads(before)["status"] == "ok"
    assert run(site, record_of("1n1d"), record_of("2n1d")) == 0, log_of(site)
    assert (site / record_of("2n1d")).read_bytes() == before
    assert read(site, record_of("1n1d"))["status"] == "ok"


@pytest.fixture
def forgetful(cluster) -> Iterator[slurm.Cluster]:
    """The cluster, while squeue forgets a job two seconds after its end."""
    cluster.restart_controller(job_age=2)
    yield cluster
    cluster.restart_controller(job_age=3600)


@pytest.mark.full
def test_a_job_that_squeue_has_forgotten_has_ended(forgetful, site):
    assert run(site, record_of("1n1d")) == 0, log_of(site)
    assert read(site, record_of("1n1d"))["status"] == "ok"


@pytest.mark.full
def test_a_cancelled_job_that_squeue_has_forgotten_is_submitted_again(forgetful, site):
    rules = site / "rules/common.smk"
    call = "inside_snakemake.end_forgotten_jobs(workflow)"
    assert call in rules.read_text()  # it waits for a second here, and not for minutes
    soon = f"inside_snakemake.FORGOTTEN_SECONDS = 1; {call}"
    rules.write_text(rules.read_text().replace(call, soon))
    snakemake = start(site, record_of("1n1d"))
    (job,) = wait_until(forgetful.jobs, 400)
    snakemake.send_signal(signal.SIGSTOP)  # it looks again when the job is forgotten
    forgetful.run("scancel", job)
    all_jobs = ["squeue", "-h", "--states=all", "-o", "%i"]
    assert wait_until(lambda: job not in forgetful.run(*all_jobs).split(), 90), "still known"
    snakemake.send_signal(signal.SIGCONT)
    assert snakemake.wait(PATIENCE) == 0, log_of(site)
    assert f"squeue no longer knows job {job}" in log_of(site)
    assert read(site, record_of("1n1d"))["provenance"]["scheduler_job"] != job


def job_on_gpus(cluster, site, topology: str, cores: int) -> tuple[str, dict]:
    """What Slurm was asked for, and the record. There are no GPUs: the record says so."""
    config = yaml.safe_load((ROOT / "config/rounds/dlperf-v1.yaml").read_text())
    config.update(frameworks=["pytorch"], topologies=[topology], repetitions=1, cores_per_device=1)
    config["environments"] = {"interpreters": {"pytorch": sys.executable}}  # which has no PyTorch
    (site / "config/config.yaml").write_text(yaml.safe_dump(config))
    (site / "results/environments").unlink()  # a link to those that other tests share
    profile = site / "profiles/slurm/config.yaml"
    assert "cores: 0" in profile.read_text()
    profile.write_text(profile.read_text().replace("cores: 0", f"cores: {cores}"))
    case = f"train-fp32-{topology}-b128-synthetic"
    name = f"results/dlperf-v1/runs/resnet50/pytorch/{case}/rep1.json"
    assert run(site, name) == 0, log_of(site)
    record = read(site, name)
    assert record["status"] in ("crashed", "unsupported")
    return cluster.run("scontrol", "show", "job", record["provenance"]["scheduler_job"]), record


def test_a_job_of_many_gpus(cluster, site):
    """What is asked for 4 nodes of 8 GPUs."""
    asked, record = job_on_gpus(cluster, site, "4n8d", cores=0)
    assert record["status"] == "crashed" and record["reason"].startswith("no environment:")
    assert "NumNodes=4" in asked and "NumTasks=4" in asked and "CPUs/Task=8" in asked
    assert re.search(r"TresPerNode=\S*gpu:8", asked), asked
    assert "--gres=gpu:{devices}" in record["provenance"]["command"]


@pytest.mark.parametrize("topology", [pytest.param("1n2d", marks=pytest.mark.full), "4n2d"])
def test_a_job_with_few_gpus_has_all_cores_of_its_nodes(cluster, site, topology):
    asked, _ = job_on_gpus(cluster, site, topology, cores=8)
    assert f"NumNodes={topology[0]}" in asked and "CPUs/Task=8" in asked
    assert re.search(r"TresPerNode=\S*gpu:2", asked), asked


def on_two_nodes(module: str, *arguments: object) -> str:
    """Run a module without Snakemake in an allocation of two nodes; what it said on stderr."""
    geometry = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--mem=0"]
    command = [sys.executable, "-m", module, *map(str, arguments), "--interface", "lo"]
    done = subprocess.run(
        [
            "salloc",
            "--quiet",
            "--exclusive",
            *geometry,
            *command,
            "--launcher",
            f"srun {' '.join(geometry)}",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


@pytest.mark.full
def test_a_certificate_over_two_nodes(cluster, environments, reference, sample_data, tmp_path):
    cluster.wait_for_nodes()
    pair = ["--workload", "resnet50", "--framework", "pytorch", "--layout", "dp2-2n"]
    inputs = ["--reference", reference, "--data-dir", sample_data]
    inputs += ["--environment", environments / "pytorch.cpu/env.json"]
    out = tmp_path / "certificate.json"
    said = on_two_nodes("dlperf.certify", *pair, *inputs, "--out", out)
    certificate = json.loads(out.read_text())
    assert certificate["passed"], f"{certificate['tiers']}\n{said[-3000:]}"
    assert certificate["provenance"]["nodes"] == 2


@pytest.mark.full
@pytest.mark.parametrize("framework", CPU_FRAMEWORKS)
def test_every_framework_over_nodes_and_devices(
    framework, cluster, environments, sample_data, tmp_path
):
    """Two nodes with two ranks each, by hand."""
    cluster.wait_for_nodes()
    identity = {
        "round": "x",
        "workload": "resnet50",
        "framework": framework,
        "scenario": "train",
        "precision": "fp32",
        "compiler": frameworks.of(framework).default_compiler["cpu"],
        "nodes": 2,
        "devices_per_node": 2,
        "layout": dataclasses.asdict(Layout()),
        "batch_size": 2,
        "data": "sample",
        "repetition": 1,
        "image_size": 32,
    }
    settings = {
        "device": "cpu",
        "warmup_steps": 1,
        "measured_steps": 1,
        "cores_per_device": 1,
        "timeout_seconds": 600,
        "seed": 1,
        "data_dir": str(sample_data),
    }
    case = json.dumps({"identity": identity, "settings": settings})
    environment = environments / f"{framework}.cpu/env.json"
    out = tmp_path / "rep1.json"
    said = on_two_nodes(
        "dlperf.measure", "--case", case, "--environment", environment, "--out", out
    )
    record = json.loads(out.read_text())
    assert record["status"] == "ok", f"{record['reason']}\n{said[-3000:]}"
    nodes = [each["node"] for each in record["window"]]
    assert nodes[0] == nodes[1] < nodes[2] == nodes[3]
    # from the same weights, on the same photographs, whatever the framework
    assert record["steps"]["loss"][0] == pytest.approx(7.0894, abs=0.001)
