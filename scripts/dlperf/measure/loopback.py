"""A loopback of a repetition's own: where its frameworks listen, nobody else can connect.

Several frameworks listen on all addresses of a machine, whatever they are told. The ranks of one
node need only each other, so they run in a network namespace that has nothing but `lo`, where the
kernel grants one: to root, and to others where it has user namespaces. (Linux; man 7 namespaces)

This file is a program, too: the process that makes the namespace. Each rank joins it before its
program starts, so the stopwatch itself, its launcher and its files stay where they are.
"""

import array
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

# of sched.h, sockios.h and net/if.h
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, IFF_UP = 0x8916, 0x8914, 0x1
SECONDS = 20.0

#: "shared": ranks use the machine's own loopback, as they do where there is no other.
SWITCH = "DLPERF_LOOPBACK"

_LIBC = ctypes.CDLL(None, use_errno=True)


class Private:
    """A namespace that ranks can `enter`. `listening`: a socket in it, for their meeting."""

    def __init__(self):
        """Raises OSError where there can be none, which says why."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", os.path.abspath(__file__), str(theirs.fileno())]
        maker = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self._spaces, self.listening = [], None
        try:
            theirs.close()
            ours.settimeout(SECONDS)
            kinds, ancillary, _, _ = ours.recvmsg(64, socket.CMSG_LEN(4))
            if not kinds:
                said = maker.stderr.read().decode("utf-8", "replace").strip()
                raise OSError(said or "it could not be made")
            self.listening = socket.socket(fileno=array.array("i", ancillary[0][2])[0])
            for kind in kinds.decode().split():
                path = "/proc/%d/ns/%s" % (maker.pid, kind)
                self._spaces.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            self.close()
            raise
        finally:
            ours.close()  # it may end now: who has the namespace open keeps it
            maker.stderr.close()
            maker.wait()

    def enter(self):
        """Put this process, which has no other threads, into it."""
        for each in self._spaces:
            _call("setns", each, 0)

    def close(self):
        """Forget it: it ends with the last process in it."""
        while self._spaces:
            os.close(self._spaces.pop())
        if self.listening:
            self.listening.close()


def private(log):
    """A Private, or None where none is wanted or can be had, which `log` says."""
    why = "%s=shared" % SWITCH
    if os.environ.get(SWITCH) != "shared":
        try:
            return Private()
        except OSError as error:
            why = str(error)
    log.write("ranks share this machine's loopback (%s)\n" % why)
    log.flush()
    return None


def _call(name, *arguments):
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))


def _make(channel):
    """Make the namespace, send a listening socket of it, and stay until the other side has it."""
    own = _own_address()
    user, group = os.geteuid(), os.getegid()
    kinds = "net"
    try:
        _call("unshare", CLONE_NEWNET)
    except OSError:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        kinds = "user net"
        # everybody stays who they are, so that files stay theirs
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", "%d %d 1" % (user, user)),
            ("gid_map", "%d %d 1" % (group, group)),
        ):
            with open("/proc/self/" + name, "w", encoding="utf-8") as stream:
                stream.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        if own and not own.startswith("127."):
            # gloo binds to what the machine's name stands for
            address = struct.pack("16sHH4s16x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(own))
            fcntl.ioctl(control, SIOCSIFADDR, address)
    if own != _own_address():
        raise OSError("this machine's name is known by its network only")
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    sent = array.array("i", [listening.fileno()])
    channel.sendmsg([kinds.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    channel.recv(1)


def _own_address():
    """What this machine's name stands for, or ""."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return ""


if __name__ == "__main__":
    try:
        _make(socket.socket(fileno=int(sys.argv[1])))
    except OSError as error:
        sys.exit(str(error))
