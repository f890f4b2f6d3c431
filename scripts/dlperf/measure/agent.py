"""A node's part of a repetition over several nodes: it starts what the stopwatch asks for.

    python -m dlperf.measure.agent HOST:PORT

The cluster's launcher starts one on each node, with DLPERF_TOKEN in its environment. Messages are
lines of JSON. When the stopwatch is gone, everything that was started here ends.
"""

import json
import os
import selectors
import socket
import sys

from dlperf.contract import terminal
from dlperf.measure import host, processes
from dlperf.measure.door import TOKEN
from dlperf.measure.node import Node

POLL_SECONDS = 0.02


def main(address):
    if TOKEN not in os.environ:
        sys.exit("error: no %s: the launcher must pass its environment to nodes" % TOKEN)
    name, _, port = address.rpartition(":")
    connection = socket.create_connection((name, int(port)), timeout=60)
    connection.settimeout(None)
    processes.handle_stops(_leave)
    agent = Agent(connection)
    agent.send(token=os.environ.pop(TOKEN), order=os.environ.get("SLURM_PROCID", ""))
    try:
        agent.serve()
    finally:
        agent.end()


def _leave(number, frame):
    raise SystemExit(128 + number)


class Agent:
    def __init__(self, connection):
        self._connection = connection
        self._node = None
        self._told = set()  # ranks whose end was reported

    def send(self, **message):
        self._connection.sendall((json.dumps(message) + "\n").encode())

    def serve(self):
        """Answer requests until the stopwatch sends `stop` or is gone."""
        selector = selectors.DefaultSelector()
        selector.register(self._connection, selectors.EVENT_READ)
        pending = b""
        while True:
            if selector.select(POLL_SECONDS):
                data = self._connection.recv(1 << 16)
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    message = json.loads(line.decode())
                    if message["do"] == "stop":
                        self.send(after=self.end())
                        return
                    getattr(self, "do_" + message.pop("do"))(**message)
            if self._node:
                self.tell_exits()

    def do_prepare(self, device, devices, interface):
        own = self._connection.getsockname()[0]
        interface = interface or host.interface_of(own)
        address = host.interfaces().get(interface, own)
        self._node = Node(device, devices, sys.stdout, address, interface)
        self.send(about=self._node.about)

    def do_start(self, runs, program, environ, token, limit_bytes):
        self._node.start(runs, program, environ, token, limit_bytes)

    def do_note(self, moment):
        self._node.note(moment)

    def do_look(self, rank, moment):
        self.send(**{"look %d" % rank: self._node.look(rank, moment)})

    def do_results(self):
        self.send(results=self._node.results())

    def tell_exits(self):
        new = {rank: how for rank, how in self._node.exits().items() if rank not in self._told}
        if new:
            self._told.update(new)
            self.send(exits=new)

    def end(self):
        node, self._node = self._node, None
        return node.stop() if node else None


if __name__ == "__main__":
    terminal.as_utf8()
    main(sys.argv[1])
