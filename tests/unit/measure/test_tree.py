"""What a rank's processes do is read from /proc, of all that it started, also where it left."""

import os
import subprocess
import sys
import threading
import time

import pytest
from user_time import compute

from dlperf.measure import tree

TICK = tree.tick()


def process(
    folder,
    pid,
    parent,
    name="python",
    session=1,
    spent=(0, 0, 0, 0),
    threads=1,
    queue="",
    state="S",
):
    """A process in a folder that stands for /proc."""
    own = folder / str(pid)
    (own / "task").mkdir(parents=True)
    fields = [
        state,
        parent,
        pid,
        session,
        0,
        -1,
        4194560,
        9,
        9,
        9,
        9,
        *spent,
        20,
        0,
        threads,
        0,
        77,
    ]
    (own / "stat").write_bytes(b"%d (%s) " % (pid, name.encode("utf-8", "surrogateescape")))
    with open(own / "stat", "a") as stream:
        stream.write(" ".join(map(str, fields)) + "\n")
    if queue:
        (own / "task" / str(pid)).mkdir()
        (own / "task" / str(pid) / "schedstat").write_text(queue)


@pytest.fixture
def proc(tmp_path):
    """Rank 10 with a child, a grandchild, one that ended, one whose parent did; a stranger."""
    process(tmp_path, 1, 0)
    process(tmp_path, 5, 1)
    process(tmp_path, 10, 5, session=10, spent=(100, 10, 7, 1), threads=3, queue="9 2500000000 4\n")
    process(tmp_path, 11, 10, "a ) b (", session=10, spent=(20, 2, 0, 0), threads=2)
    process(tmp_path, 12, 11, "\udcff\n", session=12, spent=(3, 0, 0, 0))
    process(tmp_path, 14, 11, session=12, spent=(5, 0, 0, 0), threads=1, state="Z")
    process(tmp_path, 13, 5, session=10, spent=(1000, 0, 0, 0))
    process(tmp_path, 20, 5, session=20, spent=(9999, 9999, 9999, 9999))
    (tmp_path / "self").mkdir()
    (tmp_path / "30").mkdir()  # it ends while it is read
    return str(tmp_path)


def test_a_tree_has_all_that_a_process_started_and_what_of_it_ended(proc):
    found = tree.read(10, proc=proc)
    assert found.user == pytest.approx((100 + 7 + 20 + 3 + 5) * TICK)
    assert found.kernel == pytest.approx((10 + 1 + 2) * TICK)
    assert (found.processes, found.threads, found.queued) == (3, 6, 2.5)
    assert found.computed == found.user + found.kernel


def test_one_whose_parent_ended_is_a_child_of_who_adopted_it(proc):
    there = tree.processes(proc)
    assert sorted(each.pid for each in tree.children(there, 5)) == [10, 13, 20]
    assert tree.read(10, [13], there, proc).user == pytest.approx(1135 * TICK)


def test_of_a_process_that_is_gone_there_is_nothing(proc):
    found = tree.read(99, proc=proc)
    assert found.computed == found.processes == found.threads == 0
    assert found.queued is None and found.cores == []


def test_parents_in_a_ring_are_read_once(tmp_path):
    """Pids are read one by one, and may be used again meanwhile."""
    process(tmp_path, 10, 11, spent=(1, 0, 0, 0))
    process(tmp_path, 11, 10, spent=(1, 0, 0, 0))
    assert tree.read(10, proc=str(tmp_path)).processes == 2


def test_each_threads_cores_count():
    allowed = os.sched_getaffinity(0)
    stop = threading.Event()

    def elsewhere():
        os.sched_setaffinity(0, {min(allowed)})  # of this thread alone
        stop.wait(30)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        os.sched_setaffinity(0, {max(allowed)})
        deadline = time.monotonic() + 5
        while tree.read(os.getpid()).cores != sorted({min(allowed), max(allowed)}):
            assert time.monotonic() < deadline
    finally:
        os.sched_setaffinity(0, allowed)
        stop.set()
        thread.join()


def test_processor_time_is_that_of_threads_and_children_that_ended():
    before = tree.read(os.getpid())
    thread = threading.Thread(target=compute, args=[0.2])
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-c", BUSY % 0.2], check=True)
    after = tree.read(os.getpid())
    assert after.computed - before.computed >= 0.4 - 4 * TICK
    assert after.processes == before.processes


BUSY = "import time\nwhile time.process_time() < %g: pass"
LEFT = f"""
import os, sys, time
if os.fork():
    sys.exit()
os.setsid()
if os.fork():
    os._exit(0)
{BUSY % 0.2}
print(os.getpid(), flush=True)
time.sleep(60)
"""


def test_a_process_that_left_its_parents_and_its_session_is_adopted():
    tree.adopt()
    try:
        started = subprocess.Popen([sys.executable, "-c", LEFT], stdout=subprocess.PIPE, text=True)
        pid = int(started.stdout.readline())
        started.wait()
        there = tree.processes()
        (found,) = (each for each in tree.children(there, os.getpid()) if each.pid == pid)
        assert found.session not in (os.getsid(0), started.pid)
        assert tree.read(pid, there=there).computed >= 0.2 - 2 * TICK
    finally:
        tree.adopt(False)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        started.stdout.close()
