"""What is read from the machine before a repetition."""

import subprocess
import sys

import pytest

from dlperf.measure import host


def test_a_busy_process_is_named():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            found = host.idleness(0.5)
        finally:
            busy.kill()
    name, share = max(found["busy_processes"], key=lambda each: each[1])
    assert name.startswith("python") and share > 0.3
    assert found["idle_share"] < 1


def test_loopback_is_among_the_interfaces():
    assert host.interfaces()["lo"] == "127.0.0.1"
    assert host.interface_of("127.0.0.1") == "lo"
    assert host.interface_of("192.0.2.1") == "lo"  # nobody's
    assert host.default_interface() in host.interfaces()


def test_a_node_has_the_name_that_slurm_gives_it(monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "node3")
    assert host.name() == "node3"


def test_free_space_is_what_the_disk_has(tmp_path):
    assert 0 < host.free_bytes(str(tmp_path)) < 1 << 60


@pytest.mark.parametrize(
    ("maker", "flags", "told"),
    [
        ("AuthenticAMD", "fma avx avx2", {"MKL_DEBUG_CPU_TYPE": "5"}),
        ("AuthenticAMD", "avx", {}),
        ("GenuineIntel", "fma avx avx2 avx512f", {}),  # there it would cost AVX-512
    ],
)
def test_an_old_mkl_is_told_to_use_avx2_where_it_would_not(monkeypatch, maker, flags, told):
    cpuinfo = f"vendor_id\t: {maker}\nmodel name\t: X\nflags\t\t: {flags}\n"
    monkeypatch.setattr(host, "_read", lambda path: cpuinfo)
    assert host.mkl_variables() == told
