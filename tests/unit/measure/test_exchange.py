"""What NCCL says of itself as it starts: versions, transports, networks."""

import pytest

from dlperf.measure import exchange

INSIDE = """NCCL version 2.27.3+cuda12.9
n1:5663:5809 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:192.168.11.1<0>
n1:5663:5809 [0] NCCL INFO Using network IB
n1:5663:5809 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
n1:5663:5809 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
n1:5663:5809 [0] NCCL INFO Channel 02 : 0[87000] -> 1[8d000] via SHM/direct/direct
n1:5663:5809 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/3/GDRDMA
n1:5663:5809 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/12/GDRDMA
n1:5663:5809 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
"""


def test_channels_are_counted_by_their_transport():
    assert exchange.said(INSIDE) == {
        "library": "NCCL",
        "version": "2.27.3+cuda12.9",
        "transports": {"NET/IB/GDRDMA": 2, "P2P/CUMEM/read": 2, "SHM/direct/direct": 1},
        "networks": ["IB"],
    }


@pytest.mark.parametrize(
    ("line", "transports"),
    [
        ("n [3] NCCL INFO Channel 03/0 : 7[3] -> 3[3] [receive] via NET/IBext_v8/3/GDRDMA", 1),
        ("n [0] NCCL INFO Channel 00/01 : 0[0] -> 1[0] [send] via NET/Socket/0", 1),
        ("n [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via P2P/direct pointer", 1),
        ("n [0] NCCL INFO Channel 00/32 : 0 1 2 3", 0),
        ("n [0] NCCL INFO comm 0x1 rank 0 nranks 2 via nothing", 0),
        ("", 0),
    ],
)
def test_lines_of_other_versions(line, transports):
    found = exchange.said(line)
    assert sum(found["transports"].values()) == transports and found["version"] is None


def test_ranks_of_two_versions_are_both_named():
    found = exchange.said("NCCL version 2.21.5+cuda12.4\nNCCL version 2.27.3+cuda12.9")
    assert found["version"] == "2.21.5+cuda12.4, 2.27.3+cuda12.9"


def test_files_of_all_ranks_are_read_together(tmp_path):
    for number, line in enumerate(INSIDE.splitlines()):
        (tmp_path / f"nccl.n1.{number}").write_bytes(line.encode() + b" \xff\n")
    assert exchange.read(str(tmp_path)) == exchange.said(INSIDE)
    assert exchange.read(str(tmp_path / "nowhere")) is None


def test_who_asked_nccl_for_words_gets_them_himself(tmp_path):
    asked = exchange.variables(str(tmp_path), {})
    assert asked["NCCL_DEBUG"] == "INFO" and asked["NCCL_DEBUG_FILE"].startswith(str(tmp_path))
    assert exchange.variables(str(tmp_path), {"NCCL_DEBUG": "WARN"}) == {}
