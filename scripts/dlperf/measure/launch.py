"""Agents on the nodes of a repetition, started by the cluster's launcher, such as srun."""

import contextlib
import json
import os
import shlex
import socket
import sys
import threading
import time

from dlperf.measure import host, processes
from dlperf.measure.door import TOKEN, Door, listener, new_token

ANSWER_SECONDS = 30.0


class LaunchError(Exception):
    """Some nodes did not connect; the message says why."""


class RemoteNode:
    """A node whose processes an agent runs. It has the same methods as Node."""

    def __init__(self, connection, order):
        self._connection = connection
        self._exits, self._answers = {}, {}
        self._changed, self._telling = threading.Condition(), threading.Lock()
        self.order = order
        self.about = None
        self.lost = False

    def prepare(self, device, devices, interface):
        threading.Thread(target=self._read, daemon=True).start()
        self._tell("prepare", device=device, devices=devices, interface=interface)

    def ready(self, seconds):
        """Wait for the node's description of itself."""
        self.about = self._answer("about", seconds)
        return self.about is not None

    def start(self, runs, program, environ, token, limit_bytes=0):
        asked = dict(runs=runs, program=list(program), environ=environ, token=token)
        self._tell("start", limit_bytes=limit_bytes, **asked)

    def exits(self):
        return dict(self._exits)

    def note(self, moment):
        self._tell("note", moment=moment)

    def look(self, rank, moment):
        self._tell("look", rank=rank, moment=moment)
        return self._answer("look %d" % rank, ANSWER_SECONDS)

    def results(self):
        self._tell("results")
        found = self._answer("results", ANSWER_SECONDS)
        if found is None:
            by_rank = dict(left={}, seen={}, gpu_use={}, committed={}, joules={})
            return dict(by_rank, times={}, oom_kills=0, gpu_load=[], exchange=None)
        for key in ("left", "committed", "seen", "gpu_use", "joules"):
            found[key] = {int(rank): value for rank, value in found[key].items()}
        return found

    def stop(self):
        self._tell("stop")
        after = self._answer("after", ANSWER_SECONDS)
        self.close()
        return after or {}

    def close(self):
        """Disconnect from the agent, which then ends what it started."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _tell(self, do, **message):
        try:
            with self._telling:  # ranks come with their notes at any time
                self._connection.sendall((json.dumps(dict(message, do=do)) + "\n").encode())
        except OSError:
            self.lost = True

    def _read(self):
        try:
            for line in self._connection.makefile("r"):
                message = json.loads(line)
                for rank, how in message.pop("exits", {}).items():
                    self._exits[int(rank)] = tuple(how)
                with self._changed:
                    self._answers.update(message)
                    self._changed.notify_all()
        except (OSError, ValueError):
            pass
        with self._changed:
            self.lost = True
            self._changed.notify_all()

    def _answer(self, key, seconds):
        """What the agent sent under `key`, or None if it sends nothing any more."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while key not in self._answers and not self.lost and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            return self._answers.pop(key, None)


class Launch:
    """The agents of `count` nodes: `nodes`, in the launcher's order.

    command: the launcher and its options, in which {nodes}, {devices} and {cores} (of a node) are
    replaced; what each node must run is appended. interface: the network interface through which
    ranks communicate; "" is the one with the default route.
    """

    def __init__(self, command, interface, case, log, deadline):
        count, devices = case["identity"]["nodes"], case["identity"]["devices_per_node"]
        cores = devices * case["settings"]["cores_per_device"]
        if case["settings"]["device"] == "cuda":  # a repetition has its nodes to itself
            cores = max(cores, allocated_cores(os.environ))
        command = command.format(nodes=count, devices=devices, cores=cores)
        self._interface = interface
        self.address = address_of(interface)
        self.nodes = []
        self._came, self._changed = [], threading.Condition()
        token = new_token()
        door = Door(listener(self.address), token, self._welcome)
        try:
            argv = shlex.split(command) + [sys.executable, "-m", "dlperf.measure.agent"]
            argv.append(door.address)
            log.write("nodes by: %s\n" % " ".join(argv))
            log.flush()
            variables = dict(os.environ)
            variables[TOKEN] = token
            try:
                self._launcher = processes.Child("", argv, variables, [], log)
            except OSError as error:
                raise LaunchError("%s: %s" % (argv[0], error.strerror))
            try:
                self._gather(count, case, deadline)
            except BaseException:
                for node in self._came:
                    node.close()
                self.end()
                raise
        finally:
            door.close()

    def _welcome(self, connection, hello):
        order = str(hello.get("order", ""))
        with self._changed:
            self._came.append(RemoteNode(connection, int(order) if order else 0))
            self._changed.notify_all()

    def _gather(self, count, case, deadline):
        while len(self._came) < count:
            status = self._launcher.poll()
            if status is not None:
                words = self._launcher.last_words()
                raise LaunchError("the launcher ended with status %s: %s" % (status, words))
            if time.monotonic() > deadline:
                raise LaunchError("%d of %d nodes connected in time" % (len(self._came), count))
            with self._changed:
                self._changed.wait(0.1)
        self.nodes = self._came[:count]
        identity, device = case["identity"], case["settings"]["device"]
        for node in self.nodes:
            node.prepare(device, identity["devices_per_node"], self._interface)
        for node in self.nodes:
            if not node.ready(ANSWER_SECONDS):
                raise LaunchError("node %d of the launcher disconnected" % node.order)
        self.nodes.sort(key=lambda node: (node.order, node.about["name"]))

    def end(self):
        """Return when the launcher has ended."""
        deadline = time.monotonic() + 5
        while self._launcher.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)  # the agents have been told to stop
        processes.stop([self._launcher])


def allocated_cores(environ):
    """The cores of each node of a job of Slurm: of the smallest; 0 outside of a job.

    Slurm writes them as '72(x2),36'. [sbatch, SLURM_JOB_CPUS_PER_NODE]
    """
    counts = [
        part.partition("(")[0] for part in environ.get("SLURM_JOB_CPUS_PER_NODE", "").split(",")
    ]
    return min(map(int, counts)) if all(each.isdigit() for each in counts) else 0


def address_of(interface):
    """This host's IPv4 address on `interface`, or on that of the default route."""
    there = host.interfaces()
    name = interface or host.default_interface()
    if name not in there:
        known = ", ".join(sorted(there))
        raise LaunchError("%s has no network interface %r; it has %s" % (host.name(), name, known))
    return there[name]
