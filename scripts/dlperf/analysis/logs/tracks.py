"""Runs and ranks: which entries follow each other.

A track is what one rank printed in one run, steps rising. A step that falls starts a new run; which
one counts is the user's to say. Ranks are told apart by what their lines say, or else by their
number, where every step is there that often.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from dlperf.analysis.logs.entries import Entry, Read
from dlperf.analysis.schema.files import AnalysisError

Track = list[Entry]
Key = tuple[int, int]


def of_run(read: Read, run: str, allowed: Collection[int]) -> list[Track]:
    """The entries of one run: a track a rank that lines name, or one where they name none.

    `run` is a number from 1, "last", or "" where the log must have one only; `allowed` are the
    numbers of ranks that may have printed.
    """
    by_rank: dict[int | None, Track] = defaultdict(list)
    for entry in read.entries:
        by_rank[entry.rank].append(entry)
    if None in by_rank and len(by_rank) > 1:
        raise AnalysisError(
            f"{read.log.path}: line {by_rank[None][0].number} does not say which rank printed it, "
            "others do: give a log whose lines all do, or one log a rank"
        )
    mixed = None in by_rank and max(allowed) > 1
    return [
        _chosen(read, _runs(track, slack=1) if mixed else _runs(_without_repeats(track)), run)
        for track in by_rank.values()
    ]


def _without_repeats(track: Track) -> Track:
    """A line that stands twice in a row, from tee or a launcher or two loggers, counts once."""
    kept: Track = []
    for entry in track:
        last = kept[-1] if kept else None
        if last is None or last.key != entry.key or not _same(last, entry):
            kept.append(entry)
    return kept


def _same(one: Entry, other: Entry) -> bool:
    """Whether two lines of one step are one, as two loggers print it: one stamp, one rate."""
    return one.text == other.text or (
        one.time is not None and one.time == other.time and _numbers(one) == _numbers(other)
    )


def _numbers(entry: Entry) -> tuple[tuple[str, object], ...]:
    """What the line says, as numbers: two loggers may print them with other digits."""
    found = ((name, float(text), text) for name, text in sorted(entry.values.items()))
    return tuple((name, text if number != number else number) for name, number, text in found)


def _runs(track: Track, slack: int = 0) -> list[Track]:
    """A track, cut where steps start anew; ranks that share it may lag by `slack` printed steps."""
    runs: list[Track] = []
    rising: list[Key] = []
    for entry in track:
        if not runs or entry.key < rising[-1 - min(slack, len(rising) - 1)]:
            runs.append([])
            rising = []
        runs[-1].append(entry)
        if not rising or entry.key > rising[-1]:
            rising.append(entry.key)
    return runs


def _chosen(read: Read, runs: Sequence[Track], run: str) -> Track:
    count = len(runs)
    if run == "last" or (run == "" and count == 1):
        return runs[-1]
    if run == "":
        falls = [f"at line {each[0].number} to {each[0].step}" for each in runs[1:6]]
        falls += ["…"] * (count > 6)
        raise AnalysisError(
            f"{read.log.path}: the step falls {', '.join(falls)}: the log holds {count} runs; "
            f"choose one [--run 1 … {count}, or last]"
        )
    if int(run) > count:
        raise AnalysisError(f"{read.log.path}: --run {run}: the log holds {count}")
    return runs[int(run) - 1]


def apart(read: Read, track: Track, allowed: Collection[int]) -> list[Track]:
    """The tracks in one whose lines name no rank: the n-th line of a step is the n-th track's.

    Which rank is which does not matter then, only that each step has as many lines.
    """
    for candidate in (_of_one_stamp(track), track, _distinct(track)):
        counts = Counter(entry.key for entry in candidate)
        if len(set(counts.values())) == 1 and counts[candidate[0].key] in allowed:
            return _dealt(candidate, counts[candidate[0].key])
    (usual, _), *_ = Counter(counts.values()).most_common(1)
    odd, number = next(
        ((key, number) for key, number in counts.items() if number != usual),
        (track[0].key, usual),
    )
    asked = " or ".join(str(number) for number in sorted(set(allowed)))
    raise AnalysisError(
        f"{read.log.path}: {number} different lines stand for step {odd[1]}, where others have "
        f"{usual} and the case asks for {asked}: its ranks cannot be told apart; give one log a "
        "rank, or one whose lines name it (mpirun --tag-output, srun --label)"
    )


def _of_one_stamp(track: Track) -> Track:
    """Lines of one step with one stamp and one rate are one: of two loggers, or of two ranks that
    say the same."""
    stamped = {(e.key, e.time, _numbers(e)): e for e in reversed(track) if e.time is not None}
    kept = set(map(id, stamped.values()))
    return [entry for entry in track if entry.time is None or id(entry) in kept]


def _distinct(track: Track) -> Track:
    return list({(entry.key, entry.text): entry for entry in track}.values())


def _dealt(track: Track, ranks: int) -> list[Track]:
    found: list[Track] = [[] for _ in range(ranks)]
    seen: Counter[Key] = Counter()
    for entry in track:
        found[seen[entry.key]].append(entry)
        seen[entry.key] += 1
    return [sorted(each, key=lambda entry: entry.key) for each in found]
