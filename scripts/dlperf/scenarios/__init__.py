"""What is timed, and what is said of it: a module a scenario.

A module has

    TITLE                                        what a table calls it: "ResNet-50 v1.5 training"
    TRAINS                                       whether weights change
    COUNTED                                      whether an implementation is told how many steps
                                                 there are, which a schedule may need
    QUEUED                                       whether steps are queued: else all that is timed
                                                 comes from the host
    prepare(run, implementation) -> Work         the implementation's work for this scenario
    window(run, work, stopwatch) -> dict         the timed window: a rank's raw facts
    summary(facts, case, settings) -> dict       all ranks' raw facts -> the record's; `settings`
                                                 has as `measured_steps` how many were timed
    most_steps(run, work, handle)                of scenarios in contract.case.PACED, whose windows
                                                 last at least so long: how many steps a window may
                                                 have beyond those that are asked for; None: any
                                                 number. handle: of a step that was waited for
    METRICS                                      by name, the first one is the scenario's own
    SHOWN                                        names of those that always have a table and a
                                                 figure, the scenario's own first
    RUN                                          the class of what a rank is told:
                                                 contract.run.Run, or one of its own that adds to it
    CURVED, points(record)                       whether models are evaluated on the way; then a
                                                 record's curve
    MARKED, all_seconds(record)                  {percentile: share} marked in the figure of its
                                                 latencies' distribution, and all of them; {} where
                                                 it has no latencies

Runs beside every framework: Python 3.7, standard library only.
"""

import importlib
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from dlperf import workloads
from dlperf.contract.case import SCENARIOS
from dlperf.contract.run import Rank


class Metric(NamedTuple):
    """A number that a repetition has.

    unit: as a table heads it; {samples} stands for the workload's unit, {sample} for one of them.
    In title and unit of a test score {score} and {score_unit} stand for the workload's own, whose
    direction is "score" here.
    workloads: those whose records have it; empty where all may.
    better: "higher" or "lower". value: a record and its case -> the number, None where the record
    does not have it. adds_up: over devices, so that a share of the ideal can be said. lacking: why
    no record may have it.
    """

    name: str
    unit: str
    better: str
    title: str
    value: Callable[[Dict[str, Any], Any], Optional[float]]
    adds_up: bool = False
    lacking: str = ""
    workloads: Tuple[str, ...] = ()

    @property
    def heading(self):
        """Of a column that any workload's rows may have a number in."""
        if self.better == "score":
            return self.title.format(score="test score")
        return "%s, %s" % (self.title, self.unit)

    @property
    def lower_is_better(self):
        return self.better == "lower"

    def of(self, workload):
        """The same as a workload has it: a test score has its own name, unit and direction."""
        quality = workloads.of(workload).quality
        if quality is None:
            return self
        score = quality.score
        better = score.better if self.better == "score" else self.better
        title = self.title.format(score=score.name)
        unit = self.unit.replace("{score_unit}", score.unit)
        return self._replace(better=better, title=title, unit=unit)

    def is_of(self, workload):
        return workload in (self.workloads or (workload,))

    def unit_of(self, samples):
        """The unit of a workload whose samples are `samples` (a plural)."""
        return self.unit.format(samples=samples, sample=samples[:-1])


NAMES = SCENARIOS


def load(name):
    """Return the module of scenario `name`."""
    return importlib.import_module("dlperf.scenarios." + name)


def metrics(name, workload=""):
    """{name: Metric} of a scenario, the first one its own; without a workload, those of all."""
    found = load(name).METRICS
    return {each.name: each for each in found if not workload or each.is_of(workload)}


def shown(name):
    """Names of a scenario's metrics that always have a table and a figure, its own first."""
    return load(name).SHOWN


def run_class(fields):
    """The class of what a rank is told: of its scenario; Rank where it has no workload."""
    return load(fields["scenario"]).RUN if "workload" in fields else Rank


def marked(name):
    """{name of a percentile: its share} that the figure of a scenario's latencies marks.

    Empty of a scenario without latencies.
    """
    return load(name).MARKED


def curved(name):
    """Whether a scenario's models are tested on the way: then a round has a file of curves."""
    return load(name).CURVED
