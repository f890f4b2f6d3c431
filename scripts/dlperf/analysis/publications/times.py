"""What the printed times and speeds of a training say of each other.

In: rows of published tables. Out: (rows, finding) of each that does not fit. How much a training
takes in is known from elsewhere, so it stands here with its source.
"""

from collections.abc import Iterator, Sequence

from dlperf.analysis.publications.rows import Row, group

#: Updates of ELECTRA's two phases: NVIDIA DeepLearningExamples,
#: TensorFlow2/LanguageModeling/ELECTRA/scripts/configs/pretrain_config.sh.
UPDATES = {"ELECTRA-base": {"1": 10_000, "2": 933}}
#: What a fine-tuning trains on: two epochs (scripts/run_squad.sh there) of about 88,500 windows of
#: 384 tokens, 128 apart.
WINDOWS = {"SQuAD v1.1": 177_000}
#: A time that lies this near to what follows from speeds was computed from them.
COMPUTED = 0.01
#: The share that a time may have beside the steps that the speed is of, such as the start.
BESIDE = 0.1

Found = tuple[Sequence[Row], str]


def update(row: Row) -> int:
    """Sequences of an update."""
    return int(row["bsz_per_device"]) * int(row["accumulation_steps"]) * int(row["devices"])


def extrapolated(rows: Sequence[Row]) -> Iterator[Found]:
    """Times without a final loss that are updates x sequences / the printed speed."""
    speeds = {
        (_machine(row), row["phase"]): row
        for row in rows
        if row["metric"] == "throughput" and row.get("phase") and row["value"]
    }
    losses = {_machine(row) for row in rows if row["metric"] == "final_loss" and row["value"]}
    for row in rows:
        if row["metric"] != "time_to_train" or not row["value"] or _machine(row) in losses:
            continue
        updates = UPDATES.get(row["model"], {})
        there = [speeds[place] for phase in updates if (place := (_machine(row), phase)) in speeds]
        if not there or len(there) < len(updates):
            continue
        phases = list(zip(updates.values(), there, strict=True))
        parts = [
            f"{count:,} updates of {update(each):,} at the printed {each['value']}/s"
            for count, each in phases
        ]
        hours = sum(count * update(each) / float(each["value"]) for count, each in phases) / 3600
        printed = float(row["value"])
        if abs(printed / hours - 1) <= COMPUTED:
            finding = (
                f"{row['value']} hours, without a final loss, are {printed - hours:+.2f} from what "
                f"{' and '.join(parts)} take, {hours:.2f}: they look like an extrapolation"
            )
            yield [row, *there], finding


def not_the_work(rows: Sequence[Row]) -> Iterator[Found]:
    """Times of a fine-tuning that hold another number of samples at the printed speed."""
    speeds = {
        _fine_tuned(row): row
        for row in rows
        if row.get("mode") == "finetune" and row["metric"] == "throughput" and row["value"]
    }
    for row in rows:
        windows = WINDOWS.get(row.get("dataset") or "")
        speed = speeds.get(_fine_tuned(row))
        if row["metric"] != "time_to_train" or not windows or not speed:
            continue
        samples = float(speed["value"]) * float(row["value"])
        off = abs(samples / windows - 1)
        if off > BESIDE:
            finding = (
                f"the printed {speed['value']} sequences/s for {row['value']} s are {samples:,.0f} "
                f"sequences; the training takes in {windows:,}: {off:.0%} off"
            )
            yield [row, speed], finding


def other_updates(rows: Sequence[Row]) -> Iterator[Found]:
    """Updates of another size than most of a model's phase have."""
    counted = [
        row
        for row in rows
        if row["metric"] == "throughput" and row.get("accumulation_steps") and row.get("phase")
    ]
    for own in group(counted, lambda row: (row["file"], row["model"], row["phase"])).values():
        sizes = [update(row) for row in own]
        usual = max(set(sizes), key=sizes.count)
        for row, size in zip(own, sizes, strict=True):
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
