"""Runs one repetition: starts the ranks, watches them, and makes a record of their results.

Whatever happens to a rank (out of memory, a crash, a hang, a signal), there is a record with that
status within the case's time limit, and no process is left behind.
"""

import os
import random
import shlex
import sys
import time
from datetime import datetime, timezone

from dlperf import frameworks, scenarios, workloads
from dlperf.contract import draws, strict_json
from dlperf.contract.case import NO_JOB, made_as
from dlperf.measure import (
    beside,
    gate,
    host,
    loopback,
    memory_words,
    outside,
    record,
    tree,
    weights,
)
from dlperf.measure import spot as spot_run
from dlperf.measure.door import listener, new_token
from dlperf.measure.launch import Launch, LaunchError
from dlperf.measure.meeting import Meeting, now
from dlperf.measure.node import Node, placed, placement
from dlperf.scenarios import early_return, train
from dlperf.workloads.cases import case_of

POLL_SECONDS = 0.02
# After one rank fails, the others have this long to report why they failed.
PEER_GRACE_SECONDS = 2.0


#: The share of a machine's memory that the limits of its devices may add up to: the rest is for the
#: system, which would begin to swap.
MEMORY_SHARE = 0.75


def measure(
    case,
    environment="",
    config_sha256="",
    log=sys.stderr,
    launcher="",
    interface="",
    known=None,
    draw=None,
    spot=False,
    weights_dir="",
):
    """Run the repetition that `case` (a document of contract/case.py) describes; return its record.

    environment: the path of an env.json, whose interpreter runs the ranks and whose `environ` is
    set for them; without one, this interpreter runs them. launcher, interface: for several nodes,
    see launch.Launch. known: (status, reason) of a repetition of which it is known before it runs
    how it ends. draw: the Draw of the case's group, whose seeds it takes in place of the settings'.
    spot: whether it is the group's spot run, whose document (spot.py) is returned. weights_dir:
    where ranks write the weights behind the last test of the quality scenario; "": nowhere.
    """
    built = {}
    if environment:
        built = strict_json.read(environment)
    started_utc, started = _utc(), time.perf_counter()
    schema = spot_run.SCHEMA if spot else record.SCHEMA
    document = {"schema": schema, "status": "crashed", "reason": ""}
    document.update(identity=case["identity"], settings=case["settings"])
    if not spot:
        document.update(steps={}, window=[], samples=0, memory=[])
        document["unit"] = workloads.of(case["identity"]["workload"]).unit
    document.update(parity={}, host={})
    orders = ordered(case, draw, spot)
    document["drawn"] = {"seed": orders.seed, "windows": [list(each) for each in orders.windows]}
    document["provenance"] = record.provenance(case, built, config_sha256)
    document["provenance"]["start_utc"] = started_utc

    reason = cannot_run(case, launcher)
    if known:
        document.update(status=known[0], reason=known[1])
        document["host"] = host.facts()
    elif reason:
        document.update(status="unsupported", reason=reason)
        document["host"] = host.facts()
    elif built.get("status") == "failed":
        document["reason"] = "no environment: " + built["reason"]
        document["host"] = host.facts()
    else:
        where = dict(launcher=launcher, interface=interface, told=told(orders))
        attempt = attempted(seeded(case, orders.seed, weights_dir), built, log, **where)
        document.update(attempt.shown() if spot else attempt.outcome())
        document["host"] = attempt.hosts()
        if attempt.timed_steps:
            ((seed, _),) = orders.windows
            document["drawn"]["windows"] = [[seed, attempt.timed_steps]]
        if spot and document["status"] == "ok" and has_undrawn(case_of(case["identity"])):
            program = ("dlperf.measure.rank", "--undrawn")
            attempt = attempted(seeded(case, orders.seed), built, log, program, **where)
            document["undrawn"] = attempt.shown()
    document["provenance"]["end_utc"] = _utc()
    document["provenance"]["seconds_total"] = round(time.perf_counter() - started, 3)
    return document


def attempted(case, environment, log, *program, **where):
    """The Attempt; one more on the machine's own loopback where NCCL does not get on in another.

    NCCL looks for interfaces and cards' own networks, of which a private namespace has none. Both
    have the time of one.
    """
    attempt = Attempt(case, environment, log, *program, **where)
    reason = attempt.lacks_network()
    if not reason:
        return attempt
    why = "NCCL failed in a private network namespace: %s" % reason
    log.write("%s\ntried again on this machine's loopback\n" % why)
    log.flush()
    return Attempt(case, environment, log, *program, own_loopback=why, begun=attempt.begun, **where)


def ordered(case, draw=None, spot=False):
    """The Orders of a case's repetition, or of its group's spot run.

    Without a Draw, and in the quality scenario, whose seed is what its repetitions differ in, they
    are of the settings' seed.
    """
    settings, identity = case["settings"], case["identity"]
    counts = settings["warmup_steps"], settings["measured_steps"]
    scenario = scenarios.load(identity["scenario"])
    if draw is None or scenario.COUNTED:
        seed = settings["seed"]
        orders = draws.Orders(seed, counts[0], [draws.Window(seed, counts[1])])
    elif spot:
        orders = draw.spot_run(*counts, scenario.TRAINS)
    else:
        orders = draw.repetition(identity["repetition"], *counts)
    paced = settings.get("minimum_seconds", 0) > 0
    return orders._replace(trial_steps=counts[1]) if paced else orders


def has_undrawn(case):
    """Whether a spot run has a second part, which draws no random numbers."""
    return scenarios.load(case.scenario).TRAINS and workloads.draws(case)


def seeded(case, seed, weights_dir=""):
    """The case with this seed, and where ranks write weights if their scenario is told so."""
    return dict(case, settings=dict(case["settings"], seed=seed, weights_dir=weights_dir))


def told(orders):
    """What ranks are told, by barrier: of signs only where there is something to look at.

    The window of a spot run is replayed in float64, and takes no more steps than are asked for.
    """
    dice = random.SystemRandom()
    found = {
        "orders": lambda: [orders.warmup_steps, orders.windows, orders.trial_steps],
        "signs": lambda: dice.getrandbits(draws.BITS) if orders.shown else None,
    }
    return dict(found, paced=lambda: None) if orders.shown else found


def cannot_run(case, launcher="", pinned=True):
    """Why this machine or the framework cannot run `case` at all, or "".

    Ranks that are not pinned may share cores.
    """
    identity, settings = case["identity"], case["settings"]
    wanted = [identity[key] for key in ("framework", "workload", "scenario")]
    made = made_as(identity["scenario"])
    if not workloads.implements(wanted[1], wanted[0], made):
        return "%s has no implementation of %s for %s" % tuple(wanted)
    reason = workloads.unsupported(identity) or frameworks.unsupported(
        dict(identity, scenario=made, device=settings["device"])
    )
    if reason:
        return reason
    if identity["nodes"] > 1:
        outside = shlex.split(launcher)[:1] == ["srun"] and "SLURM_JOB_ID" not in os.environ
        # what each node lacks is known when it has connected
        return "" if launcher and not outside else NO_JOB % identity["nodes"]
    cores = len(host.cores()) if pinned else sys.maxsize
    gpus = len(host.visible_gpus()) if _cuda(case) else 0
    return too_small(case, host.name(), cores, gpus, host.memory_bytes())


def too_small(case, name, cores, gpus, memory_bytes):
    """Why a node with so many cores, GPUs and memory cannot run its part of `case`, or ""."""
    devices = case["identity"]["devices_per_node"]
    needed = devices * case["settings"]["cores_per_device"]
    if _cuda(case) and not gpus:
        only = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = "" if only is None else " that CUDA_VISIBLE_DEVICES=%r lets it use" % only
        return "no GPU on %s: neither NVML nor nvidia-smi finds one%s" % (name, hidden)
    if _cuda(case) and devices > gpus:
        return "%d GPUs are needed, but %d may be used on %s" % (devices, gpus, name)
    if not _cuda(case) and needed > cores:
        return "%d cores are needed, but %d may be used on %s" % (needed, cores, name)
    limit = case["settings"].get("memory_limit_bytes", 0)
    if devices * limit > MEMORY_SHARE * memory_bytes:
        return (
            "%s (%d devices x memory_limit) are more than three quarters of the %s that %s has"
            % (gigabytes(devices * limit), devices, gigabytes(memory_bytes), name)
        )
    return ""


def gigabytes(count):
    """Bytes for people: '4.3 GB'."""
    return "%.1f GB" % (count / 1e9)


def _cuda(case):
    return case["settings"]["device"] == "cuda"


def _utc():
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Attempt:
    """The processes of one repetition, until the last one ends.

    program: the module and arguments that each rank runs; its Run is appended. pinned: whether each
    rank has its own cores, as all timed ranks must. told: what ranks are told, by barrier, as of
    meeting.Meeting. own_loopback: why ranks of one node share the machine's own loopback, if they
    have to. begun: when the time of the repetition began, if that was before.
    facts: the results of each rank, by rank. failure: (status, reason) if one failed. trial,
    timed_steps: of a window that lasts at least so long, what its number of steps is computed from
    (scenarios.train.timed_steps), and that number, once it is told; else None.
    """

    def __init__(
        self,
        case,
        environment,
        log,
        program=("dlperf.measure.rank",),
        pinned=True,
        launcher="",
        interface="",
        told=None,
        own_loopback="",
        begun=None,
    ):
        self._case, self._own_loopback = case, own_loopback
        self._told = dict({"paced": self._paced}, **(told or {}))
        self.trial = self.timed_steps = None
        self.begun = time.monotonic() if begun is None else begun
        self._deadline = self.begun + case["settings"]["timeout_seconds"]
        self._nodes, self._exits, self._results, self._after = [], {}, [], []
        self._runs, self._log = [], log
        # barrier, or (note, rank) -> how long this process has stood in the queue for a core
        self._queued = {}
        self.facts, self.failure = [], None
        self._launch = self._meeting = self._loopback = None
        identity = case["identity"]
        devices = identity["devices_per_node"]
        self._local_ranks = frameworks.ranks_of_node(identity["framework"], devices)
        self._ranks = identity["nodes"] * self._local_ranks
        try:
            if identity["nodes"] == 1:
                alone = self._ranks > 1 and environment.get("backend") != "container"
                if alone and not own_loopback:
                    self._loopback = loopback.private(log)
                enter = self._loopback and self._loopback.enter
                device = case["settings"]["device"]
                self._nodes = [Node(device, devices, log, pinned=pinned, enter=enter)]
            else:
                self._launch = Launch(launcher, interface, case, log, self._deadline)
                self._nodes = self._launch.nodes
            self._run(program, environment, pinned)
        except LaunchError as error:
            late = time.monotonic() > self._deadline
            self.failure = ("timeout" if late else "crashed", "no nodes: %s" % error)
        finally:
            self._after = [node.stop() for node in self._nodes]
            if self._launch:
                self._launch.end()
            if self._meeting:
                self._meeting.close()
            if self._loopback:
                self._loopback.close()

    def _run(self, program, environment, pinned):
        abouts = [node.about for node in self._nodes]
        for about in abouts:
            cores = len(about["cores"]) if pinned else sys.maxsize
            memory = about["facts"]["memory_bytes"]
            reason = too_small(self._case, about["name"], cores, about["gpus"], memory)
            reason = reason or gate.refusal(environment, self._case, about["facts"], about["name"])
            if reason:
                self.failure = ("unsupported", reason)
                return
        if self._loopback:
            listening = self._loopback.listening
        else:
            listening = listener(self._launch.address if self._launch else "127.0.0.1")
        token = new_token()
        self._meeting = Meeting(self._ranks, listening, token, self._note, self._told, self._look)
        interpreter = environment.get("interpreter", sys.executable)
        self._started = time.perf_counter()
        self._runs = placed(self._case, abouts, interpreter, self._meeting.address)
        limit = 0 if _cuda(self._case) else self._case["settings"].get("memory_limit_bytes", 0)
        if pinned and _cuda(self._case):
            self._say_who_is_far()
        for node, runs in zip(self._nodes, self._runs):
            node.start(runs, program, environment.get("environ", {}), token, limit)
        self._watch()

    def lacks_network(self):
        """Why NCCL did not get on in a private network namespace, or ""."""
        if not (self._loopback and self.failure and _cuda(self._case)):
            return ""
        status, reason = self.failure
        began = self._meeting is not None and "window" in self._meeting.times
        return reason if status == "crashed" and not began and "nccl" in reason.lower() else ""

    def _say_who_is_far(self):
        """Log each rank that gets cores on another side of the machine than its card."""
        for node, runs in zip(self._nodes, self._runs):
            for each in placement(node.about, runs):
                if each["beside"] is False:
                    self._log.write(
                        "rank %d: cores on another side of the machine than its card, as this "
                        "process may not use enough there\n" % each["rank"]
                    )
        self._log.flush()

    def _note(self, barrier):
        for node in self._nodes:
            node.note(barrier)
        self._queued[barrier] = tree.queued_here()

    def _look(self, rank, name):
        """What a rank's note is answered by: what its processes took, as of early_return.Taken."""
        found = self._nodes[rank // self._local_ranks].look(rank, name)
        self._queued[name, rank] = tree.queued_here()
        if not found:
            return None  # the node is lost
        reading = outside.Reading(*found)
        return [reading.user, reading.computed]

    def _paced(self):
        """How many steps the window has, which all ranks are told at the end of their trial."""
        if self.trial is None:
            seconds = now().seconds - self._meeting.times["trial"].seconds
            mosts = [most for most in self._meeting.said["paced"].values() if most is not None]
            self.trial = {"seconds": seconds, "most": min(mosts, default=None)}
            self.timed_steps = train.timed_steps(self._case["settings"], self.trial)
        return self.timed_steps

    def _watch(self):
        """Return when all ranks are done; set the failure if one failed."""
        first_failure = None
        while len(self._exits) < self._ranks:
            time.sleep(POLL_SECONDS)
            for node in self._nodes:
                for rank, how in node.exits().items():
                    self._exits[rank] = how
                    if how[0] != 0 and first_failure is None:
                        first_failure = time.monotonic()
                if node.lost:
                    self.failure = ("crashed", "node %s: lost" % node.about["name"])
                    return
            now = time.monotonic()
            if first_failure is not None and now > first_failure + PEER_GRACE_SECONDS:
                break
            if now > self._deadline:
                phases = ", ".join(
                    "rank %d in %s" % (rank, self._meeting.phases.get(rank, "start"))
                    for rank in range(self._ranks)
                    if rank not in self._exits
                )
                limit = self._case["settings"]["timeout_seconds"]
                self.failure = ("timeout", "not done after %g s: %s" % (limit, phases))
                return
        self._results = [node.results() for node in self._nodes]
        left = {rank: facts for each in self._results for rank, facts in each["left"].items()}
        self.facts = [left.get(rank) for rank in range(self._ranks)]
        if first_failure is not None:
            self.failure = self._why()

    def _why(self):
        """(status, reason) of the failure that best explains the others."""
        said = []
        for rank, facts in enumerate(self.facts):
            if facts and facts["status"] != "ok":
                status, reason = facts["status"], facts["reason"]
                _, words = self._exits.get(rank, (0, ""))
                if memory_words.may_say(reason) and memory_words.says(words):
                    status, reason = "oom", words
                said.append((status, "rank %d: %s" % (rank, reason)))
        died = [
            (rank,) + tuple(how)
            for rank, how in sorted(self._exits.items())
            if self.facts[rank] is None
        ]
        for status in ("oom", "unsupported"):
            for each in said:
                if each[0] == status:
                    return each
        for rank, code, _ in died:
            node = rank // self._local_ranks
            if code == -9 and self._results[node]["oom_kills"] > 0:
                return "oom", "rank %d: killed by the kernel: out of memory" % rank
        ends = []
        for rank, code, words in died:
            how = "signal %d" % -code if code < 0 else "exit status %d" % code
            status = "oom" if memory_words.says(words) else "crashed"
            ends.append(
                (status, "rank %d: ended with %s; its last output: %s" % (rank, how, words[-300:]))
            )
        # a peer's end may be all that the other ranks died of
        return next((each for each in ends if each[0] == "oom"), (ends + said)[0])

    def outcome(self):
        """The record's status and, if it is ok, everything that was measured."""
        if self.failure:
            status, reason = self.failure
            return {"status": status, "reason": reason}
        identity, settings = self._case["identity"], self._case["settings"]
        outcome = {"status": "ok", "reason": ""}
        scenario = scenarios.load(identity["scenario"])
        case = case_of(identity)
        timed = dict(settings, measured_steps=self._steps())
        outcome.update(scenario.summary(self.facts, case, timed))
        if self.trial:
            outcome["steps"]["trial"] = self.trial
        windows, watched = self._windows(), self._watched()
        may_work = early_return.may_work(settings["device"], identity["data"])
        for entry, processes in zip(windows, watched):
            reason = outside.disagreement(entry)
            reason = reason or outside.too_much(processes, self._steps(), may_work)
            if reason:
                return {"status": "crashed", "reason": "rank %d: %s" % (entry["rank"], reason)}
        outcome.update(
            window=windows,
            processes=watched,
            memory=self._memory(),
            parity=self.facts[0]["parity"],
            ran_beside=beside.together([facts["ran_beside"] for facts in self.facts]),
        )
        if scenario.TRAINS:
            outcome["weights"] = [facts["weights"] for facts in self.facts]
            reason = weights.misplaced(case, [facts["parts"] for facts in self.facts])
            if reason:
                return {"status": "crashed", "reason": "not one whole model: " + reason}
        energy = self._energy()
        if len(energy) == len(self.facts):  # else the sum would be of some of them
            outcome["energy"] = energy
        return outcome

    def _energy(self):
        """The record's `energy`: from the moment at which ranks were let go until each was done."""
        found = []
        for rank in range(len(self.facts)):
            ends = self._results[rank // self._local_ranks].get("joules", {}).get(rank, [])
            if len(ends) == 2 and None not in ends:
                taken = {"joules": ends[1] - ends[0], "counter": host.ENERGY_COUNTER}
                found.append(dict(taken, device=rank))
        return found

    def _steps(self):
        return self.timed_steps or self._case["settings"]["measured_steps"]

    def _seen(self, rank):
        """moment -> Reading of a rank's processes."""
        return outside.readings(self._results[rank // self._local_ranks]["seen"].get(rank))

    def _windows(self):
        """The record's `window`, by this process's clock."""
        found, begin = [], self._meeting.times["window"]
        for rank, facts in enumerate(self.facts):
            end = self._meeting.noted["ended"][rank]
            here = self._queued["window"], self._queued["ended", rank]
            there = outside.queued(facts["window"], self._seen(rank))
            known = None not in here and there is not None
            queued = there + max(0.0, here[1] - here[0]) if known else None
            found.append(outside.window(facts["window"], begin, end, queued))
        return found

    def _watched(self):
        """The record's `processes`."""
        found = []
        for run in (run for node in self._runs for run in node):
            rank = run["rank"]
            use = self._results[rank // self._local_ranks]["gpu_use"].get(rank)
            window = self._meeting.times["window"], self._meeting.noted["ended"][rank]
            entry = outside.entry(rank, run["cores"], self._seen(rank))
            found.append(dict(entry, **outside.gpus(use, *window)))
        return found

    def shown(self):
        """Status, reason and, if all is well, what a spot run is compared by (spot.py)."""
        if self.failure:
            return dict(zip(("status", "reason"), self.failure))
        case = case_of(self._case["identity"])
        if scenarios.load(case.scenario).TRAINS:
            reason = weights.misplaced(case, [facts["parts"] for facts in self.facts])
            if reason:
                return {"status": "crashed", "reason": "not one whole model: " + reason}
            put_together = spot_run.of_all_ranks
        else:
            put_together = spot_run.answers_of_all_ranks
        windows = [
            put_together(case, [facts["shown"][index] for facts in self.facts])
            for index in range(len(self.facts[0]["shown"]))
        ]
        return {
            "status": "ok",
            "reason": "",
            "windows": windows,
            "parity": self.facts[0]["parity"],
            "ran_beside": beside.together([facts["ran_beside"] for facts in self.facts]),
        }

    def _memory(self):
        found = [facts["memory"] for facts in self.facts]
        if not self._case["settings"].get("memory_limit_bytes"):
            return found
        committed = {
            rank: peak for each in self._results for rank, peak in each["committed"].items()
        }
        return [
            dict(each, committed_peak_bytes=committed.get(rank, 0))
            for rank, each in enumerate(found)
        ]

    def hosts(self):
        """The node's facts and load; with several nodes those of the first, and a list of all."""
        found = []
        for index, (node, after) in enumerate(zip(self._nodes, self._after)):
            about = node.about
            each = dict(about["facts"])
            each.update((key + "_before", value) for key, value in about["state"].items())
            each.update((key + "_after", value) for key, value in after.items())
            if self._ranks > 1 and not self._launch:
                each["loopback"] = "private" if self._loopback else "shared"
                if self._own_loopback:
                    each["loopback_reason"] = self._own_loopback[:2000]
            if self._runs and _cuda(self._case):
                each["placement"] = placement(about, self._runs[index])
            if not self.failure:
                each.update(self._load(index))
                each.update(self._of_cards(index))
            found.append(each)
        if not found:
            return host.facts()
        return found[0] if len(found) == 1 else dict(found[0], nodes=found)

    def _of_cards(self, index):
        """What a node's cards did from the window's begin to its end, and how NCCL exchanged."""
        results, found = self._results[index], {}
        if results.get("gpu_load"):
            found["gpu_load"] = [
                [
                    dict(load, moment=moment)
                    for moment, loads in results["gpu_load"]
                    for load in [loads[card]]
                    if load
                ]
                for card in range(len(results["gpu_load"][0][1]))
            ]
        if results.get("exchange"):
            found["exchange"] = results["exchange"]
        return found

    def _load(self, index):
        """CPU time in the window as a share of time and cores: ranks with services, and others."""
        begin, end = (self._results[index]["times"].get(key) for key in ("window", "end"))
        first = index * self._local_ranks
        ranks = self.facts[first:][: self._local_ranks]
        found = {
            "startup_seconds": round(self._meeting.times["window"].seconds - self._started, 3),
            "warmup_seconds": round(max(facts["warmup_seconds"] for facts in ranks), 3),
        }
        if begin and end:
            seen = [self._seen(first + place) for place in range(len(ranks))]
            own = end[2] - begin[2]
            own += sum(each["end"].computed - each["window"].computed for each in seen)
            wall = max(each["end"].at - each["window"].at for each in seen)
            cores = len({core for run in self._runs[index] for core in run["cores"]})
            busy, total = end[0] - begin[0], end[1] - begin[1]
            found["cpu_time_over_wall"] = round(own / (wall * cores), 4)
            # everything on this host except the ranks and their services, including kernel threads
            share = round(max(0.0, busy - own) / total, 4) if total else None
            found["foreign_cpu_share"] = share
        return found
