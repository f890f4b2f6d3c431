"""XLA's program of a step as the card got it, beside the one that was made without a card.

In: what XLA dumped while JAX ran (steps.py --programs), and the folder that tests/gpu/matrix.py
made on another machine. Out: <folder>/program.txt.gz, and for both what is in them: kernels, bytes,
products by kind and type, copies, exchanges, calls of libraries; and where they differ.
"""

import collections
import gzip
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/gpu"))

from xla_program import Program  # noqa: E402

#: What tests/gpu/matrix.py made, if it was copied to this machine.
WITHOUT_CARD = ROOT / "results/benchmarks/compiled_for_gpu"


def keep_largest(dumped, out):
    """Keep the step's program of all that XLA dumped: the largest. Its path, or None."""
    found = sorted(dumped.glob("*after_optimizations.txt"), key=lambda path: path.stat().st_size)
    if not found:
        return None
    path = out / "program.txt.gz"
    path.write_bytes(gzip.compress(found[-1].read_bytes()))
    for each in dumped.iterdir():  # also machine code, of each small program
        if each.is_file():
            each.unlink()
    return path


def made_without_card(workload, precision, batch, folder=WITHOUT_CARD):
    """The program of the same step of one rank in matrix.py's folder, or None."""
    name = f"{workload}-{precision}-1-{batch}"
    places = [folder / name, *sorted(folder.glob(f"{name}-*"))]
    there = [each / "program.txt.gz" for each in places]
    return next((each for each in there if each.exists()), None)


def contents(path):
    """What a program has in it, by name."""
    program = Program(gzip.decompress(path.read_bytes()).decode())
    kinds = collections.Counter(f"{p.kind} of {'x'.join(p.types)}" for p in program.products)
    copies, moved = program.transposed
    libraries = {key: n for key, n in program.launches.items() if not key.islower() or "$" in key}
    return {
        "kernels": program.kernels,
        "GB": round(program.bytes / 1e9, 1),
        "copies": copies,
        "GB of copies": round(moved / 1e9, 1),
        "exchanges": len(program.collectives),
        "of the host": len(program.host),
        **{name: kinds[name] for name in sorted(kinds)},
        **{name: libraries[name] for name in sorted(libraries)},
    }


def differences(card, without):
    """'kernels 1,495 (without a card 1,490)' of each of `contents` that differs."""
    for name in [*without, *(name for name in card if name not in without)]:
        ours, theirs = card.get(name, 0), without.get(name, 0)
        if ours != theirs:
            yield f"{name} {ours:,} (without a card {theirs:,})"
