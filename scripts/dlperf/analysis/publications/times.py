"""What the printed times and speeds of a training say of each other.

In: rows of published tables. Out: (rows, finding) of each that does not fit. How much a training
takes in is known from elsewhere: of a workload's models its facts say it, of other data it stands
here with its source.
"""

import math
import statistics
from collections.abc import Iterator, Sequence

from dlperf.analysis.publications.published import MODELS
from dlperf.analysis.publications.rows import Row, group, place

#: Model -> updates of each phase of its training, where there are phases.
UPDATES = {model: published.updates for model, (_, published) in MODELS.items()}
#: What a fine-tuning trains on: two epochs (scripts/run_squad.sh there) of about 88,500 windows of
#: 384 tokens, 128 apart.
WINDOWS = {"SQuAD v1.1": 177_000}
#: A time that lies this near to what follows from speeds was computed from them.
COMPUTED = 0.01
#: The share that a time may have beside the steps that the speed is of, such as the start.
BESIDE = 0.1

#: Units of printed times.
SECONDS = {"s": 1, "min": 60, "hours": 3600}

Found = tuple[Sequence[Row], str]


def update(row: Row) -> int | None:
    """Sequences of an update; None where a row does not say it."""
    found = [row.get(key) or "" for key in ("bsz_per_device", "devices", "accumulation_steps")]
    return math.prod(map(int, found)) if all(each.isdecimal() for each in found) else None


def seconds(row: Row) -> float | None:
    """A printed time; None of what is no time, or has no value or no unit."""
    unit = SECONDS.get(row["unit"].strip("()"))
    return float(row["value"]) * unit if unit and row["value"] else None


def _times(rows: Sequence[Row]) -> Iterator[tuple[Row, float]]:
    """Times to train, with their seconds."""
    for row in rows:
        if row["metric"] == "time_to_train" and (took := seconds(row)):
            yield row, took


def extrapolated(rows: Sequence[Row]) -> Iterator[Found]:
    """Times without a final loss that are updates x sequences / the printed speed."""
    speeds = {
        (_machine(row), row["phase"]): (row, size)
        for row in rows
        if row["metric"] == "throughput" and row.get("phase") and row["value"]
        if (size := update(row))
    }
    losses = {_machine(row) for row in rows if row["metric"] == "final_loss" and row["value"]}
    for row, took in _times(rows):
        updates = UPDATES.get(row["model"], {})
        phases = [(_machine(row), phase) for phase in updates]
        if _machine(row) in losses or not updates or not speeds.keys() >= set(phases):
            continue
        hours, parts = 0.0, []
        for count, phase in zip(updates.values(), phases, strict=True):
            each, size = speeds[phase]
            hours += count * size / float(each["value"]) / 3600
            parts.append(f"{count:,} updates of {size:,} at the printed {each['value']}/s")
        printed = took / 3600
        if abs(printed / hours - 1) <= COMPUTED:
            finding = (
                f"{printed:g} hours, without a final loss, are {printed - hours:+.2f} from what "
                f"{' and '.join(parts)} take, {hours:.2f}: they look like an extrapolation"
            )
            yield [row, *(speeds[phase][0] for phase in phases)], finding


def not_the_work(rows: Sequence[Row]) -> Iterator[Found]:
    """Times of a fine-tuning that hold another number of samples at the printed speed."""
    speeds = {
        _fine_tuned(row): row
        for row in rows
        if row.get("mode") == "finetune" and row["metric"] == "throughput" and row["value"]
    }
    for row, took in _times(rows):
        windows = WINDOWS.get(row.get("dataset") or "")
        speed = speeds.get(_fine_tuned(row))
        if not windows or not speed:
            continue
        samples = float(speed["value"]) * took
        off = abs(samples / windows - 1)
        if off > BESIDE:
            finding = (
                f"the printed {speed['value']} sequences/s for {took:g} s are {samples:,.0f} "
                f"sequences; the training takes in {windows:,}: {off:.0%} off"
            )
            yield [row, speed], finding


def other_updates(rows: Sequence[Row]) -> Iterator[Found]:
    """Updates of another size than most of a model's phase have."""
    counted = [row for row in rows if row["metric"] == "throughput" and row.get("phase")]
    for own in group(counted, lambda row: (row["file"], row["model"], row["phase"])).values():
        sizes = {place(row): size for row in own if (size := update(row))}
        usual = statistics.mode(sizes.values()) if sizes else 0
        for row in own:
            size = sizes.get(place(row), usual)
            if size != usual:
                product = (
                    f"{row['bsz_per_device']} x {row['devices']} x {row['accumulation_steps']}"
                )
                finding = f"{size:,} sequences an update ({product}), where others have {usual:,}"
                yield [row], finding


def _machine(row: Row) -> tuple[str, ...]:
    """What a training ran on, and in which precision."""
    return tuple(row.get(key) or "" for key in ("file", "model", "gpu", "devices", "precision"))


def _fine_tuned(row: Row) -> tuple[str, ...]:
    keys = ("file", "gpu", "devices", "precision", "bsz_per_device", "seq_len", "dataset")
    return tuple(row.get(key) or "" for key in keys)
