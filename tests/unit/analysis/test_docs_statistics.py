"""docs/statistics.md names every flag that a cell can have, and every column of statistics."""

import pytest
from conftest import ROOT

from dlperf.analysis.round import flags
from dlperf.analysis.schema import columns

TEXT = (ROOT / "docs" / "statistics.md").read_text()


@pytest.mark.parametrize("flag", flags.FLAGS)
def test_every_flag_has_its_rule(flag):
    assert f"`{flag}`" in TEXT


@pytest.mark.parametrize(
    "column", ["cv", "coverage", "detectable", "rank", "rank_last", "n_outliers"]
)
def test_every_column_has_its_rule(column):
    assert f"`{column}`" in TEXT and column in columns.CELL
