"""A stand-in for nvidia-smi that answers as one of some driver: files, and readings that go on."""

import stat
import sys
from pathlib import Path

SCRIPT = """#!{python}
import sys, time

REFUSED, LINES, ENDS = {refused!r}, {lines!r}, {ends!r}
arguments = sys.argv[1:]
query = next((each[12:] for each in arguments if each.startswith("--query-gpu=")), None)
if arguments[:1] == ["topo"]:
    print("        GPU0    CPU Affinity    NUMA Affinity\\nGPU0     X      0-15            0")
elif query is None:
    print("==============NVSMI LOG==============" if arguments == ["-q"] else "NVIDIA-SMI")
elif any(field in REFUSED for field in query.split(",")):
    field = next(field for field in query.split(",") if field in REFUSED)
    print('Field "%s" is not a valid field to query.' % field)
    sys.exit(2)
elif not any(each.startswith("-lms=") for each in arguments):
    print("NVIDIA H100 80GB HBM3, GPU-0a-h100, 580.65.06, 81559, 1980, 2619, 700.00, 9.0")
else:
    (every,) = [int(each[6:]) / 1000 for each in arguments if each.startswith("-lms=")]
    number = 0
    while not (ENDS and number == len(LINES)):
        print(LINES[number % len(LINES)], flush=True)
        number += 1
        time.sleep(every)
"""


def install(folder: Path, lines: list[str], refused: tuple[str, ...] = (), *, ends=False) -> None:
    """Put it into a folder of PATH. lines: what it says, again and again unless it `ends`."""
    path = folder / "nvidia-smi"
    path.write_text(SCRIPT.format(python=sys.executable, refused=refused, lines=lines, ends=ends))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
