"""The report's verdicts on figures of others in a real browser: on a phone and on a laptop."""

from pathlib import Path

import pytest
from analysis_steps import everything
from axe_playwright_python.sync_playwright import Axe
from generated_round import config, stretch, write_round
from layout import open_everything, over_the_edge, tall_rows
from published_round import copy_beside, publish
from test_report import Visit

ROUND = {"frameworks": ["pytorch", "mxnet"], "repetitions": 5}
PUBLISHED = {
    **{"framework": "pytorch", "workload": "resnet50", "precision": "fp32", "nodes": 1},
    **{"devices_per_node": 1, "batch_size": 128, "data": "imagenet", "metric": "throughput"},
    **{"value": 367.29, "unit": "images/s", "source": "a page", "hardware": "V100-SXM2-16GB"},
}


def faster(record) -> None:
    """PyTorch's repetitions are 10 % faster."""
    if record["identity"]["framework"] == "pytorch":
        stretch(record, 1 / 1.1)


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A round beside an earlier one, and beside a publication of other work on another device."""
    root = tmp_path_factory.mktemp("beside")
    old = write_round(root, config(**ROUND, round="old"))
    everything(old)
    new = write_round(root, config(**ROUND, round="new", beside=["old", "mine"]), change=faster)
    copy_beside(new, old)
    publish(new.parent, PUBLISHED)
    everything(new)
    return new / "report.html"


@pytest.mark.parametrize("width", [390, 1280])
def test_verdicts_are_seen_whole_and_say_what_they_are_without_colour(browser, report, width):
    with Visit(browser, report, offline=True, viewport={"width": width, "height": 900}) as visit:
        assert visit.complaints == []
        open_everything(visit.page)
        assert over_the_edge(visit.page) == [] and tall_rows(visit.page) == []
        section = visit.page.locator('section[aria-labelledby="beside"]')
        said = section.locator("#beside-1-tested strong").all_inner_texts()
        assert sorted(said) == ["▲ faster", "▲ faster", "✓ reproduced", "✓ reproduced"]
        (figure,) = section.locator("figure svg").all()
        assert "faster" in (figure.get_attribute("aria-label") or "")
        reasons = section.locator("#beside-2-untested .note").all_inner_texts()
        assert "another device: Example CPU @ 2.50GHz here, V100-SXM2-16GB there" in reasons
        assert Axe().run(visit.page).violations_count == 0
