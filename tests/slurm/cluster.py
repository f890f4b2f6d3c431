"""A real Slurm of four nodes on one machine: munge, slurmctld and four slurmd, on 127.0.0.1.

Everything is in one folder but the link /etc/slurm/slurm.conf: the executor drops SLURM_CONF from a
job. Run by hand it stays up until Enter:  python tests/slurm/cluster.py FOLDER
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
NODES = ("node1", "node2", "node3", "node4")
DEFAULT_CONF = Path("/etc/slurm/slurm.conf")
UP_SECONDS = 20

CONF = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
# no cgroups; by process groups, as by parents a lost node's job leaves processes behind
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
DefMemPerCPU=100
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=10
KillWait=2
MinJobAge={job_age}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=node[1-4] Default=YES MaxTime=1:00:00 DefaultTime=00:10:00 State=UP
# its jobs take nodes from those of main
PartitionName=urgent Nodes=node[1-4] MaxTime=1:00:00 PriorityTier=10 PreemptMode=OFF State=UP
"""
# more cores than there may be: Slurm counts them, and nothing here binds to them
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 CoresPerSocket=8"
    " RealMemory=16000 Gres=gpu:8 State=UNKNOWN"
)


class Cluster:
    def __init__(self, folder: Path):
        self.folder = folder
        self.job_age = 3600  # seconds that squeue knows a job after its end

    def start(self) -> None:
        for name in ("state", "spool", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._write_conf()
        os.environ["SLURM_CONF"] = str(self.folder / "slurm.conf")
        munge = (
            f"munged --key-file={self.folder}/munge.key --socket={self.folder}/munge.sock"
            f" --pid-file={self.folder}/munged.pid --log-file={self.folder}/munged.log"
            f" --seed-file={self.folder}/munge.seed --force"
        )
        self.run(*munge.split())
        self.start_controller()
        for name in NODES:
            self.start_node(name)
        self.wait_for_nodes()

    def start_controller(self) -> None:
        self.run("slurmctld", "-f", str(self.folder / "slurm.conf"))

    def start_node(self, name: str) -> None:
        (self.folder / "spool" / name).mkdir(exist_ok=True)
        self.run("slurmd", "-f", str(self.folder / "slurm.conf"), "-N", name)

    def restart_controller(self, job_age: int) -> None:
        """Let squeue forget jobs so many seconds after their end."""
        self.end(self.folder / "slurmctld.pid")
        conf = self.folder / "slurm.conf"
        old, new = f"MinJobAge={self.job_age}\n", f"MinJobAge={job_age}\n"
        conf.write_text(conf.read_text().replace(old, new))
        self.job_age = job_age
        self.start_controller()
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Return when all nodes are idle."""
        deadline = time.monotonic() + UP_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.CalledProcessError):
                idle = self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split()
                if set(idle) == set(NODES):
                    return
            time.sleep(0.1)
        raise TimeoutError(f"nodes not idle: {self.run('sinfo', '-N', '-l')}")

    def stop(self) -> None:
        """Cancel all jobs, end the daemons by their pid files, take the link away."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self.run("scancel", "--user=root", "--full")
            self.wait_for_no_job(10)
        for pattern in ("slurmd.*.pid", "slurmctld.pid", "munged.pid"):
            self.end(*self.folder.glob(pattern))
        if DEFAULT_CONF.is_symlink() and os.readlink(DEFAULT_CONF).startswith(str(self.folder)):
            DEFAULT_CONF.unlink()
        os.environ.pop("SLURM_CONF", None)

    def end(self, *pid_files: Path, number: int = signal.SIGTERM) -> None:
        pids = []
        for each in pid_files:
            with contextlib.suppress(OSError, ValueError):
                pids.append(int(each.read_text()))
                os.kill(pids[-1], number)
        deadline = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.05)

    def jobs(self) -> list[str]:
        return self.run("squeue", "-h", "-o", "%i").split()

    def wait_for_no_job(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.jobs() and time.monotonic() < deadline:
            time.sleep(0.2)

    def run(self, *command: str) -> str:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout

    def _write_conf(self) -> None:
        host = socket.gethostname().partition(".")[0]
        controller, *ports = _free_ports(1 + len(NODES))
        nodes = "\n".join(
            NODE.format(name=name, host=host, port=port)
            for name, port in zip(NODES, ports, strict=True)
        )
        content = CONF.format(
            folder=self.folder, host=host, port=controller, nodes=nodes, job_age=self.job_age
        )
        (self.folder / "slurm.conf").write_text(content)
        devices = [self.folder / "dev" / f"gpu{index}" for index in range(8)]
        for device in devices:  # each another /dev/null: Slurm wants a character device
            if not device.exists():
                os.mknod(device, 0o20666, os.makedev(1, 3))
        gres = f"NodeName=node[1-4] Name=gpu File={self.folder}/dev/gpu[0-7]\n"
        (self.folder / "gres.conf").write_text(gres)
        key = self.folder / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(128))
            key.chmod(0o600)
        DEFAULT_CONF.parent.mkdir(exist_ok=True)
        if DEFAULT_CONF.is_symlink():
            DEFAULT_CONF.unlink()
        DEFAULT_CONF.symlink_to(self.folder / "slurm.conf")


def share_jobs(profile: Path) -> None:
    """Let repetitions of a case share a job: switch on what the profile has as a comment."""
    text = profile.read_text()
    for key in ("groups", "group-components"):
        assert f"\n# {key}: " in text
        text = text.replace(f"\n# {key}: ", f"\n{key}: ")
    profile.write_text(text)


def processes_of(folder: str) -> list[int]:
    """Processes but this one that work in the folder or name it."""
    found = []
    for each in Path("/proc").iterdir():
        if not each.name.isdigit() or int(each.name) == os.getpid():
            continue
        try:
            where = os.readlink(each / "cwd")
            words = (each / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if words and (where.startswith(folder) or folder in words):
            found.append(int(each.name))
    return found


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def missing() -> str:
    """Install Slurm where this user may; what is still wrong, or ''."""
    if os.geteuid() != 0:
        return "a Slurm of one's own needs root"
    if DEFAULT_CONF.exists() and not DEFAULT_CONF.is_symlink():
        return f"{DEFAULT_CONF}: this machine belongs to a Slurm already"
    if all(map(shutil.which, ("slurmctld", "slurmd", "srun", "munged"))):
        return ""
    if not shutil.which("apt-get"):
        return "no Slurm here, and no apt-get to install it"
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(["apt-get", *command], capture_output=True, text=True, timeout=600)
    return "" if done.returncode == 0 else f"apt-get install: {done.stderr[-500:]}"


if __name__ == "__main__":
    if problem := missing():
        sys.exit(problem)
    own = Cluster(Path(sys.argv[1]).resolve())
    own.start()
    try:
        input(f"export SLURM_CONF={own.folder}/slurm.conf   (Enter stops the cluster) ")
    finally:
        own.stop()
