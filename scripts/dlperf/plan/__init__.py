"""Turns a round's config into the repetitions to run.

The input is `config/*.yaml`; the output is cases with their names, states, order and expected
times. Importing this package is cheap (pydantic and YAML only), because every cluster job of a
campaign imports it again.
"""

from dlperf.contract.case import Case
from dlperf.contract.problems import ConfigError, read_written
from dlperf.contract.written import Written, take_arguments
from dlperf.plan.cases import document, expand, of_repetition, order, search_of, seed
from dlperf.plan.config import Config
from dlperf.plan.files import dump
from dlperf.plan.here import check_beside, label_beside, problems_here
from dlperf.plan.read import load

__all__ = [
    "Case",
    "Config",
    "ConfigError",
    "Written",
    "check_beside",
    "document",
    "of_repetition",
    "dump",
    "expand",
    "label_beside",
    "load",
    "order",
    "problems_here",
    "read_written",
    "search_of",
    "seed",
    "take_arguments",
]
