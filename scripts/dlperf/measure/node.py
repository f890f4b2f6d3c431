"""One node's part of a repetition: starts, watches and ends its ranks and their services.

On a single node the stopwatch has a Node. With several nodes, an agent on each has one (agent.py),
and the stopwatch has a RemoteNode for it (launch.py) with the same methods.
"""

import dataclasses
import json
import os
import random
import shutil
import socket
import tempfile
import time

from dlperf import frameworks, scenarios
from dlperf.contract.run import POOL_SHARE
from dlperf.measure import exchange, host, processes, tree
from dlperf.measure.door import TOKEN
from dlperf.workloads.cases import case_of

IDLE_SAMPLE_SECONDS = 0.25
#: Ranks are looked at within their window at random moments, too, which no rank knows beforehand:
#: at first within so many seconds, then after pauses that grow by a factor between these two. So
#: there are few of them, a millisecond each.
FIRST_LOOK, LONGER = 0.5, (2.0, 4.0)
#: What the driver compiles for a card, of a build that has only PTX for it, is kept to this size.
#: Its default is 1 GiB or less [CUDA C++ Programming Guide, environment variables].
COMPILED = ("CUDA_CACHE_MAXSIZE", str(4 * 2**30))
#: The folder that has the package.
PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def nothing_else_to_import():
    """Leave the user's PYTHONPATH out of what this process starts.

    An environment of the workflow has all that its framework needs, and no other folder may hide a
    module of it. By hand, without one, PYTHONPATH may be what makes the framework importable.
    """
    os.environ["PYTHONPATH"] = PACKAGE


class Node:
    """Where ranks run.

    device, devices: of the case. pinned: whether each rank has its own cores, as all timed ranks
    must. enter: what each process does first.
    `about` describes the node: name, address, interface, cores, threads (the same, hyper-threads of
    one core together), gpus (how many), gpu_cores (those close to each) and gpu_cores_by (who says
    so), ports (free, and kept so until the start), facts and state of the host.
    """

    lost = False  # a RemoteNode may be lost

    def __init__(
        self, device, devices, log, address="127.0.0.1", interface="lo", pinned=True, enter=None
    ):
        self._log, self._pinned, self._enter = log, pinned, enter
        visible = host.visible_gpus() if device == "cuda" else []
        self._gpus, self._visible = visible[:devices], visible
        self._gpu_use = {}  # rank -> {"own": its GPUs, "gpus": those in use, "busy": samples}
        self._joules = {}  # rank -> [joules of its GPUs as the window began, and as it was done]
        self._gpu_load = []  # (moment, what each of the ranks' GPUs does then)
        self._reserved = _reserve_ports(address, devices + 1)
        self._scratch = tempfile.mkdtemp(prefix="dlperf-")
        self._ranks, self._services, self._runs = {}, [], []
        self._times = {}  # moment -> [the host's busy, the host's all, the services'] CPU seconds
        self._seen = {}  # rank -> moment -> the fields of a tree.Reading
        self._within = {}  # rank -> those within the window together
        self._next_look, self._pause = None, 0.0
        self._others = set()  # pids of this process's children that are none of the repetition
        self._oom_kills = host.oom_kills()
        sides = host.gpu_sides(self._gpus)
        self.about = {
            "name": host.name(),
            "address": address,
            "interface": interface,
            "cores": host.cores(),
            "threads": host.siblings(host.cores()),
            "gpus": len(visible),
            "gpu_cores": [near for near, _ in sides],
            "gpu_cores_by": [source for _, source in sides],
            "ports": [each.getsockname()[1] for each in self._reserved],
            "facts": dict(host.facts(), gpus=host.gpu_facts(self._gpus)),
            "state": state(self._gpus),
        }

    def start(self, runs, program, environ, token, limit_bytes=0):
        """Start the ranks (Runs or Ranks, as dicts) and the framework's processes beside them.

        program: the module and arguments that each rank runs; its Run is appended.
        environ: the variables of the framework's environment. token: lets ranks into their meeting.
        limit_bytes: the memory that a rank may commit, 0 without a limit; services have none.
        """
        tree.adopt()
        self._others = {each.pid for each in tree.children(tree.processes(), os.getpid())}
        for each in self._reserved:
            each.close()
        for fields in runs:
            result = os.path.join(self._scratch, "rank%d.json" % fields["rank"])
            own = dict(gpus=self._gpus, capability=self._capability(fields), result=result)
            self._runs.append(scenarios.run_class(fields)(**dict(fields, **own)))
        first = self._runs[0]
        all_cores = sorted({core for run in self._runs for core in run.cores})
        for name, argv, variables in frameworks.load(first.framework).services(first):
            environment = dict(self._environment(first, environ), **variables)
            service = self._child(name, argv, environment, all_cores)
            self._services.append(service)
        for run in self._runs:
            spec = os.path.join(self._scratch, "spec%d.json" % run.rank)
            run.save(spec)
            argv = [run.interpreter, "-m"] + list(program) + [spec]
            environment = self._environment(run, environ)
            environment[TOKEN] = token
            self._ranks[run.rank] = self._child(
                "rank %d" % run.rank, argv, environment, run.cores, limit_bytes
            )

    def _capability(self, fields):
        """The compute capability of a rank's GPU, "" if it is not known."""
        facts = self.about["facts"]["gpus"]
        first = fields["local_rank"] * fields.get("devices", 1)
        own = facts[first] if first < len(facts) else {}
        return own.get("compute_capability") or ""

    def _child(self, name, argv, environment, cores, limit_bytes=0):
        own = cores if self._pinned else []
        return processes.Child(name, argv, environment, own, self._log, self._enter, limit_bytes)

    def _environment(self, run, environ):
        """A rank's variables: this process's, the environment's, the launch's, the framework's."""
        environment = dict(os.environ)
        # first, so that no other folder hides a module of the package
        others = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        others = [each for each in others if os.path.abspath(each) != PACKAGE]
        environment["PYTHONPATH"] = os.pathsep.join([PACKAGE] + others)
        environment["PYTHONUNBUFFERED"] = "1"
        environment["TMPDIR"] = self._scratch  # files that ranks leave there are removed with it
        environment.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # would cost seconds of compiling in each repetition
        environment.update(environ)
        ours, own = (each.get("LD_LIBRARY_PATH") for each in (environ, os.environ))
        if ours and own:  # the user's, such as a network's plug-in for NCCL, comes second
            environment["LD_LIBRARY_PATH"] = os.pathsep.join((ours, own))
        threads = str(len(run.cores))
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            environment[name] = threads
        for name, value in host.mkl_variables().items():  # a value that the user set is kept
            environment.setdefault(name, value)
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            environment[name] = run.interface  # the same network for every framework
        # else the address of all interfaces
        environment["JAX_COORDINATOR_BIND_ADDRESS"] = "%s:%d" % (run.address, run.port)
        environment.update(host.PCI_ORDER)
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(host.own_gpus(run)) if run.cuda else ""
        if run.cuda:
            environment.setdefault(*COMPILED)
            if run.ranks * run.devices > 1:
                environment.update(exchange.variables(self._scratch, environment))
        environment.update(frameworks.load(run.framework).environment(run))
        return environment

    def exits(self):
        """{rank: (exit status, last line of output)} of the ranks that ended by themselves.

        Asked all the time, and so the time to look at them, too.
        """
        if self._next_look is not None and time.perf_counter() > self._next_look:
            self._look_within()
        ended = {rank: child.poll() for rank, child in self._ranks.items()}
        return {
            rank: (status, self._ranks[rank].last_words() if status else "")
            for rank, status in ended.items()
            if status is not None
        }

    def note(self, moment):
        """Note the current CPU times, and what the processes of all ranks do."""
        services = sum(child.cpu_seconds() for child in self._services)
        self._times[moment] = list(host.cpu_times()) + [services]
        there = tree.processes()
        for rank in self._ranks:
            self._look(rank, moment, there)
        if self._gpus and moment in ("window", "end"):
            self._look_at_gpus(moment, there)
            self._gpu_load.append([moment, host.gpu_load(self._gpus)])
        if moment == "window":
            for run in self._runs:
                self._joules[run.rank] = [self._taken(run.rank)]
            self._pause = random.uniform(0, FIRST_LOOK)
            self._next_look = time.perf_counter() + self._pause
        elif moment == "end":
            self._next_look = None

    def look(self, rank, moment):
        """Note what the processes of a rank do: the fields of a tree.Reading."""
        if moment == "ended":
            self._next_look = None
            self._joules.setdefault(rank, []).append(self._taken(rank))
        return self._look(rank, moment, tree.processes())

    def _taken(self, rank):
        """The joules that a rank's GPUs have taken so far; None: not known."""
        (run,) = [each for each in self._runs if each.rank == rank]
        joules = host.gpu_joules(host.own_gpus(run)) if run.cuda else []
        return sum(joules) if joules and None not in joules else None

    def _look_at_gpus(self, moment, there):
        """Note which GPUs the ranks' processes compute on, and behind the window how much."""
        if moment == "window":
            self._begun_utc = time.time()
        computing = host.gpu_processes(self._visible)
        samples = host.gpu_busy(self._gpus, self._begun_utc) if moment == "end" else []
        for run in self._runs:
            pids = {each.pid for each in tree.below(there, self._roots(run.rank, there))}
            use = self._gpu_use.setdefault(run.rank, {"gpus": [], "own": host.own_gpus(run)})
            on = [gpu for gpu, theirs in zip(self._visible, computing) if pids & set(theirs)]
            use["gpus"] = sorted(set(use["gpus"]) | set(on))
            use["busy"] = [[utc, percent] for pid, utc, percent in samples if pid in pids]

    def _look_within(self):
        there = tree.processes()
        for rank in self._ranks:
            found = tree.together(self._within.get(rank), self._reading(rank, there))
            self._within[rank] = found
            self._seen.setdefault(rank, {})["within"] = list(found)
        if self._gpus:  # under load: before and after a window a card rests
            self._gpu_load.append(["within", host.gpu_load(self._gpus)])
        self._pause *= random.uniform(*LONGER)
        self._next_look = time.perf_counter() + self._pause

    def _look(self, rank, moment, there):
        found = list(self._reading(rank, there))
        self._seen.setdefault(rank, {})[moment] = found
        return found

    def _reading(self, rank, there):
        own, *others = self._roots(rank, there)
        return tree.read(own, others, there)

    def _roots(self, rank, there):
        """The pids of a rank's first process, and of what it started and this process adopted."""
        adopted = self._adopted(there)
        first = rank == min(self._ranks)
        sessions = {child.pid for child in self._ranks.values()}
        own = self._ranks[rank].pid
        # one that left all sessions is somebody's: the first rank's, so that it counts
        others = [
            each.pid
            for each in adopted
            if each.session == own or (first and each.session not in sessions)
        ]
        return [own, *others]

    def _adopted(self, there):
        """Processes that a rank or a service started, and whose own parent ended."""
        children = list(self._ranks.values()) + self._services
        own, here = {child.pid for child in children} | self._others, os.getsid(0)
        services = {child.pid for child in self._services}
        return [
            each
            for each in tree.children(there, os.getpid())
            # what this process starts itself is of its own session
            if each.pid not in own and each.session != here and each.session not in services
        ]

    def results(self):
        """The results of the ranks, by rank, and what the host did during the run."""
        left = {}
        for run in self._runs:
            try:
                with open(run.result, encoding="utf-8") as stream:
                    left[run.rank] = json.load(stream)
            except (OSError, ValueError):
                left[run.rank] = None
        return {
            "left": left,
            "times": self._times,
            "seen": self._seen,
            "gpu_use": self._gpu_use,
            "gpu_load": self._gpu_load,
            "joules": self._joules,
            "exchange": exchange.read(self._scratch),
            "oom_kills": host.oom_kills() - self._oom_kills,
            "committed": {
                rank: child.committed_peak_bytes() for rank, child in self._ranks.items()
            },
        }

    def stop(self):
        """End everything that was started here; return the host's state afterwards."""
        processes.stop(list(self._ranks.values()) + self._services)
        processes.reap([each.pid for each in self._adopted(tree.processes())])
        tree.adopt(False)
        shutil.rmtree(self._scratch, ignore_errors=True)
        return state(self._gpus, sample_seconds=0)


def state(gpus, sample_seconds=IDLE_SAMPLE_SECONDS):
    """How busy the host is, to be read before and after."""
    found = {
        "load": round(os.getloadavg()[0], 2),
        "clock_mhz": host.clock_mhz(),
        "disk_free_bytes": host.free_bytes(),
    }
    if sample_seconds:
        found.update(host.idleness(sample_seconds))
    if gpus:
        found["gpus"] = host.gpu_facts(gpus)
    return found


def _reserve_ports(address, count):
    """Bound sockets, so that nobody else takes their ports before the ranks do."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind((address, 0))
    return sockets


def placed(case, nodes, interpreter, meeting):
    """The ranks of `case` as Runs in dicts: a list for each node (what their `about` says).

    A case without a workload gives plain Ranks: nothing is trained.

    Ranks are numbered node by node. On a CPU a rank gets `cores_per_device` of its node's cores, on
    GPUs its share of those close to its card; one with several devices gets what is theirs.
    """
    identity, settings = case["identity"], case["settings"]
    devices, per_device = identity["devices_per_node"], settings["cores_per_device"]
    trained = "workload" in identity
    named = {each.name for each in dataclasses.fields(scenarios.run_class(identity))}
    same = {key: value for key, value in {**identity, **settings}.items() if key in named}
    if trained:
        same["dimensions"] = dict(case_of(identity).dimensions)
        counted = frameworks.of(identity["framework"]).counted
        if not (counted or scenarios.load(identity["scenario"]).COUNTED):
            for key in ("warmup_steps", "measured_steps"):
                same.pop(key)
        same["pool_bytes"] = min(pool_bytes(case, node["facts"]) for node in nodes)
    first, local_ranks = nodes[0], frameworks.ranks_of_node(identity["framework"], devices)
    each = devices // local_ranks
    if each > 1:
        same["devices"] = each
    peers = [
        "%s:%d" % (node["address"], port)
        for node in nodes
        for port in node["ports"][1 : 1 + local_ranks]
    ]
    found = []
    for index, node in enumerate(nodes):
        runs, cores = [], node["cores"]
        if settings["device"] == "cpu":
            turns = range(0, devices * per_device, per_device)
            own = [cores[turn : turn + per_device] or cores for turn in turns]
        else:
            own = close_cores(node["threads"], node["gpu_cores"])
        for local_rank in range(local_ranks):
            there = own[local_rank * each :][:each]
            runs.append(
                dict(
                    same,
                    rank=index * local_ranks + local_rank,
                    local_rank=local_rank,
                    ranks=len(peers),
                    local_ranks=local_ranks,
                    cores=sorted({core for cores in there for core in cores}),
                    interpreter=interpreter,
                    address=first["address"],
                    port=first["ports"][0],
                    peers=peers,
                    interface=node["interface"],
                    meeting=meeting,
                )
            )
        found.append(runs)
    return found


def placement(about, runs):
    """Of each rank of a node with GPUs: whether its cores are on the side of all its cards.

    `about` is the node's. "beside" is None, and "by" is "", where nobody says which side that is.
    """
    found = []
    for run in runs:
        devices = run.get("devices", 1)
        own = slice(run["local_rank"] * devices, (run["local_rank"] + 1) * devices)
        near, sources = about["gpu_cores"][own], sorted(set(about["gpu_cores_by"][own]))
        is_known = bool(near) and all(near)
        beside = set(run["cores"]) <= {core for each in near for core in each}
        entry = {"rank": run["rank"], "by": " ".join(sources) if is_known else ""}
        found.append(dict(entry, beside=beside if is_known else None))
    return found


def pool_bytes(case, facts):
    """What synthetic batches may take of a device of a node with these facts; 0: not known."""
    if case["settings"]["device"] == "cpu":
        size = facts["memory_bytes"] // case["identity"]["devices_per_node"]
        limit = case["settings"].get("memory_limit_bytes", 0)
        size = min(size, limit) if limit else size
    else:
        size = min((gpu.get("memory_bytes") or 0 for gpu in facts["gpus"]), default=0)
    return int(POOL_SHARE * size)


def close_cores(threads, close):
    """The cores of each rank with a GPU: an even share of those close to it, in whole cores.

    threads: the CPU numbers of the node, hyper-threads of one core together. close: for each rank
    those on its GPU's side of the machine, [] if that is not known. Ranks on one side share it. All
    ranks share all cores if a side is not known, has none that may be used, or overlaps another.
    """
    sides = [
        tuple(index for index, core in enumerate(threads) if not set(core).isdisjoint(each))
        for each in close
    ]
    listed = [index for side in set(sides) for index in side]
    if not all(sides) or len(listed) > len(set(listed)):
        sides = [tuple(range(len(threads)))] * len(close)
    found = []
    for rank, side in enumerate(sides):
        share, turn = len(side) // sides.count(side), sides[:rank].count(side)
        own = side[turn * share : (turn + 1) * share] or side  # more ranks than cores: no shares
        found.append(sorted(core for index in own for core in threads[index]))
    return found
