"""One repetition from case to record: starts the ranks, watches them, gathers what they left.

Whatever a rank does (out of memory, a crash, a hang, a death by signal), the answer is a record
with that status, within the case's time limit, and no process is left behind.
"""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from datetime import datetime, timezone

from dlperf import frameworks, workloads
from dlperf.measure import host, processes, record
from dlperf.measure.meeting import Meeting
from dlperf.measure.run import Run

POLL_SECONDS = 0.02
# After one rank fails, its peers get this long to say why they failed themselves.
PEER_GRACE_SECONDS = 2.0
IDLE_SAMPLE_SECONDS = 0.25


def measure(case, environment="", config_sha256="", log=sys.stderr):
    """Run the repetition that `case` (dlperf.case/1) asks for; return its record.

    environment: path of an env.json, whose interpreter runs the ranks and whose `environ` is set
    for them; without one, this interpreter runs them.
    """
    built = {}
    if environment:
        with open(environment) as stream:
            built = json.load(stream)
    started_utc, started = _utc(), time.perf_counter()
    document = {"schema": record.SCHEMA, "status": "crashed", "reason": ""}
    document.update(identity=case["identity"], settings=case["settings"])
    document.update(steps={}, window=[], samples=0, memory=[], parity={}, host={})
    document["unit"] = workloads.facts(case["identity"]["workload"]).UNIT
    document["provenance"] = record.provenance(case, built, config_sha256)
    document["provenance"]["start_utc"] = started_utc

    reason = cannot_run(case)
    if reason:
        document.update(status="unsupported", reason=reason)
        document["host"] = host.facts()
    elif built.get("status") == "failed":
        document["reason"] = "no environment: " + built["reason"]
        document["host"] = host.facts()
    else:
        cards = gpus(case)
        before = _state(cards)
        document["host"] = dict(host.facts(), gpus=host.gpu_facts(cards))
        document["host"].update((key + "_before", value) for key, value in before.items())
        attempt = Attempt(case, cards, built, log)
        document.update(attempt.outcome())
        document["host"].update(attempt.load())
        after = _state(cards, sample_seconds=0)
        document["host"].update((key + "_after", value) for key, value in after.items())
    document["provenance"]["end_utc"] = _utc()
    document["provenance"]["seconds_total"] = round(time.perf_counter() - started, 3)
    return document


def cannot_run(case):
    """Why this machine or the framework cannot run `case` at all, or ""."""
    identity, settings = case["identity"], case["settings"]
    if not workloads.implements(identity["workload"], identity["framework"]):
        return "%s has no implementation of %s" % (identity["framework"], identity["workload"])
    reason = frameworks.load(identity["framework"]).unsupported(
        dict(identity, device=settings["device"])
    )
    if reason:
        return reason
    if identity["nodes"] > 1:
        return "%d nodes: this stopwatch starts the ranks of one node" % identity["nodes"]
    devices = identity["devices_per_node"]
    if settings["device"] == "cpu":
        needed, there = devices * settings["cores_per_device"], len(host.cores())
        if needed > there:
            return "%d cores are needed, %d may be used on this machine" % (needed, there)
    elif devices > len(host.visible_gpus()):
        there = len(host.visible_gpus())
        return "%d GPUs are needed, %d may be used on this machine" % (devices, there)
    return ""


def gpus(case):
    """The cards that the case's ranks get, by what CUDA_VISIBLE_DEVICES takes."""
    if case["settings"]["device"] != "cuda":
        return []
    return host.visible_gpus()[: case["identity"]["devices_per_node"]]


def _state(gpus, sample_seconds=IDLE_SAMPLE_SECONDS):
    """How busy the machine is, to be read before and after."""
    state = {"load": round(os.getloadavg()[0], 2), "clock_mhz": host.clock_mhz()}
    if sample_seconds:
        state["idle_share"] = host.idle_share(sample_seconds)
    if gpus:
        state["gpus"] = host.gpu_facts(gpus)
    return state


def _utc():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def free_ports(count):
    """TCP ports that are free now on the loopback address, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class Attempt:
    """The processes of one repetition, from start to the last one's end.

    program: module and arguments that each rank runs, behind which its Run is named. pinned: each
    rank on its own cores, as whatever is timed must be.
    facts: what each rank left, by rank; failure: (status, reason) where one did not end well.
    """

    def __init__(self, case, gpus, environment, log, program=("dlperf.measure.rank",), pinned=True):
        self._program, self._pinned = list(program), pinned
        self._case = case
        self._gpus = gpus
        self._log = log
        self._environ = environment.get("environ", {})
        self._interpreter = environment.get("interpreter", sys.executable)
        self._framework = frameworks.load(case["identity"]["framework"])
        self._scratch = tempfile.mkdtemp(prefix="dlperf-")
        self._services = []
        self._cpu_times = {}  # barrier -> (the host's busy, the host's all, the services') seconds
        self._started = time.perf_counter()
        self._deadline = time.monotonic() + case["settings"]["timeout_seconds"]
        self._oom_kills = host.oom_kills()
        self.facts = []
        self.failure = None
        ranks = case["identity"]["devices_per_node"]
        self._meeting = Meeting(ranks, on_release=self._note_cpu_times)
        children = []
        try:
            self._start(children)
            self._watch(children)
        finally:
            processes.stop(children)
            self._meeting.close()
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _note_cpu_times(self, barrier):
        services = sum(child.cpu_seconds() for child in self._services)
        self._cpu_times[barrier] = host.cpu_times() + (services,)

    def _start(self, children):
        identity, settings = self._case["identity"], self._case["settings"]
        devices = identity["devices_per_node"]
        cores, per_device = host.cores(), settings["cores_per_device"]
        ports = free_ports(devices + 2)
        dimensions = workloads.facts(identity["workload"]).DIMENSIONS
        same = {
            key: identity[key]
            for key in ("workload", "framework", "scenario", "precision", "compiler")
            + ("batch_size", "data")
        }
        same.update({key: settings[key] for key in ("device", "warmup_steps", "measured_steps")})
        same.update({key: settings[key] for key in ("cores_per_device", "seed", "data_dir")})
        runs = []
        for rank in range(devices):
            if settings["device"] == "cpu":
                own = cores[rank * per_device : (rank + 1) * per_device]
            else:  # an even share of the node's cores, as a launcher that binds by GPU gives
                share = max(1, len(cores) // devices)
                own = cores[rank * share : (rank + 1) * share] or cores
            runs.append(
                Run(
                    dimensions={key: identity[key] for key in dimensions},
                    rank=rank,
                    local_rank=rank,
                    ranks=devices,
                    cores=own,
                    interpreter=self._interpreter,
                    address="127.0.0.1",
                    ports=ports,
                    meeting=self._meeting.address,
                    result=os.path.join(self._scratch, "rank%d.json" % rank),
                    **same,
                )
            )
        self._runs = runs
        all_cores = sorted({core for run in runs for core in run.cores})
        for name, argv, variables in self._framework.services(runs[0]):
            environment = dict(self._environment(runs[0]), **variables)
            own = all_cores if self._pinned else []
            service = processes.Child(name, argv, environment, own, self._log)
            children.append(service)
            self._services.append(service)
        self._ranks = []
        for run in runs:
            spec = os.path.join(self._scratch, "spec%d.json" % run.rank)
            run.save(spec)
            child = processes.Child(
                "rank %d" % run.rank,
                [self._interpreter, "-m"] + self._program + [spec],
                self._environment(run),
                run.cores if self._pinned else [],
                self._log,
            )
            children.append(child)
            self._ranks.append(child)

    def _environment(self, run):
        """A rank's variables: this process's, the environment's, the launch's, the framework's."""
        environment = dict(os.environ)
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment["PYTHONPATH"] = package  # and nothing else: no foreign folder shadows a module
        environment["PYTHONUNBUFFERED"] = "1"
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # seconds of compiling in each repetition
        environment.update(self._environ)
        threads = str(len(run.cores))
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = threads
        if run.cuda:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[run.local_rank]
        else:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        environment.update(self._framework.environment(run))
        return environment

    def _watch(self, children):
        """Return when all ranks are done; sets the failure where one is not."""
        ranks = dict(enumerate(self._ranks))
        first_failure = None
        while ranks:
            time.sleep(POLL_SECONDS)
            for rank, child in sorted(ranks.items()):
                status = child.poll()
                if status is None:
                    continue
                del ranks[rank]
                if status != 0 and first_failure is None:
                    first_failure = time.monotonic()
            now = time.monotonic()
            if first_failure is not None and now > first_failure + PEER_GRACE_SECONDS:
                break
            if now > self._deadline:
                phases = ", ".join(
                    "rank %d in %s" % (rank, self._meeting.phases.get(rank, "start"))
                    for rank in sorted(ranks)
                )
                limit = self._case["settings"]["timeout_seconds"]
                self.failure = ("timeout", "not done after %g s: %s" % (limit, phases))
                return
        self.facts = [self._left(run) for run in self._runs]
        if first_failure is not None:
            self.failure = self._why()

    @staticmethod
    def _left(run):
        try:
            with open(run.result) as stream:
                return json.load(stream)
        except (OSError, ValueError):
            return None

    def _why(self):
        """(status, reason) of the failure that explains the others best."""
        said = [
            (facts["status"], "rank %d: %s" % (rank, facts["reason"]))
            for rank, facts in enumerate(self.facts)
            if facts and facts["status"] != "ok"
        ]
        died = [
            (rank, child.poll(), child.last_words())
            for rank, child in enumerate(self._ranks)
            if self.facts[rank] is None and child.poll() is not None
        ]
        for status in ("oom", "unsupported"):
            for each in said:
                if each[0] == status:
                    return each
        for rank, code, _ in died:
            if code == -9 and host.oom_kills() > self._oom_kills:
                return "oom", "rank %d: killed by the kernel for want of memory" % rank
        for rank, code, words in died:
            how = "signal %d" % -code if code < 0 else "exit status %d" % code
            return "crashed", "rank %d: ended with %s; last words: %s" % (rank, how, words[-300:])
        return said[0]

    def outcome(self):
        """The record's status and, when it is ok, all that was measured."""
        if self.failure:
            status, reason = self.failure
            return {"status": status, "reason": reason}
        identity, settings = self._case["identity"], self._case["settings"]
        first, count = self.facts[0], settings["measured_steps"]
        outcome = {
            "status": "ok",
            "reason": "",
            "steps": {
                "warmup": settings["warmup_steps"],
                "measured": count,
                "clock": first["clock"],
                "seconds": first["seconds"],
                "loader_seconds": max(facts["loader_seconds"] for facts in self.facts),
                "loss": [
                    sum(facts["loss"][step] for facts in self.facts) / len(self.facts)
                    for step in range(count)
                ],
            },
            "window": [facts["window"] for facts in self.facts],
            "samples": identity["batch_size"] * len(self.facts) * count,
            "memory": [facts["memory"] for facts in self.facts],
            "parity": first["parity"],
        }
        energy = [facts["energy"] for facts in self.facts if "energy" in facts]
        if energy:
            outcome["energy"] = energy
        return outcome

    def load(self):
        """CPU time in the window: the ranks' and services' over wall and cores, and others'."""
        if self.failure:
            return {}
        services = self._cpu_times["end"][2] - self._cpu_times["window"][2]
        own = services + sum(facts["cpu_seconds"] for facts in self.facts)
        windows = [facts["window"] for facts in self.facts]
        wall = max(w["end"] for w in windows) - min(w["start"] for w in windows)
        cores = len({core for run in self._runs for core in run.cores})
        busy = self._cpu_times["end"][0] - self._cpu_times["window"][0]
        total = self._cpu_times["end"][1] - self._cpu_times["window"][1]
        return {
            "cpu_time_over_wall": round(own / (wall * cores), 4),
            # what this host did beside the ranks and their services, kernel threads included
            "foreign_cpu_share": round(max(0.0, busy - own) / total, 4) if total else None,
            "startup_seconds": round(self._meeting.times["window"] - self._started, 3),
            "warmup_seconds": round(max(facts["warmup_seconds"] for facts in self.facts), 3),
        }
