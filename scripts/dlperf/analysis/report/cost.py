"""What a round cost: of the time that machines were held for it, how much was measured.

In: rows of measurements.tsv.gz. A repetition holds its nodes from its job's start to its record's
end; without a scheduler, or where the job's start is not known, from its own start.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dlperf.analysis.schema.rows import Measurement


@dataclass(frozen=True)
class Campaign:
    """Seconds, times nodes. `allocated` is all; what is neither in windows nor start-up is lost."""

    jobs: int
    allocated: float
    windows: float
    startup: float

    @property
    def lost(self) -> float:
        return self.allocated - self.windows - self.startup

    @property
    def efficiency(self) -> float:
        """The share of the allocated time that was start-up, warm-up or timed window."""
        return (self.windows + self.startup) / self.allocated


def campaign(rows: Iterable[Measurement]) -> Campaign | None:
    """Of all repetitions that have a record; None where there is none."""
    jobs: dict[str, list[Measurement]] = {}
    for row in rows:
        if row["record"]:
            own = row["scheduler_job"] and row["scheduler_job_start_utc"]
            jobs.setdefault(row["scheduler_job"] if own else row["record"], []).append(row)
    if not jobs:
        return None
    allocated = sum(_held(own) for own in jobs.values())
    ok = [row for own in jobs.values() for row in own if row["status"] == "ok"]
    return Campaign(
        jobs=len(jobs),
        allocated=allocated,
        windows=sum(row["window_seconds"] * row["nodes"] for row in ok),
        startup=sum((row["startup_seconds"] or 0.0) * row["nodes"] for row in ok),
    )


def _held(rows: list[Measurement]) -> float:
    """Seconds, times nodes, of one job."""
    nodes = max(row["nodes"] for row in rows)
    if not rows[0]["scheduler_job_start_utc"]:
        return nodes * sum(row["seconds_total"] for row in rows)
    start = datetime.fromisoformat(rows[0]["scheduler_job_start_utc"])
    end = max(datetime.fromisoformat(row["end_utc"]) for row in rows)
    return nodes * (end - start).total_seconds()
