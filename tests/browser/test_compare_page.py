"""The page of a comparison in a real browser: offline, in dark and light, on any screen."""

from pathlib import Path

import pytest
from analysis_steps import bounding, limiting, merging, summarising
from generated_round import config, stretch, write_round
from layout import open_everything, over_the_edge, scrolling, tall_rows
from test_report import Visit

from dlperf.analysis.__main__ import main


def slower(record) -> None:
    """PyTorch's repetitions take 20 % longer, in another layout on two devices."""
    if record["identity"]["framework"] == "pytorch":
        if record["identity"]["devices_per_node"] == 2:
            record["parity"]["layout"] = "NCHW"
        stretch(record, 1.2)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("compare")
    for name, change in (("old", None), ("new", slower)):
        results = write_round(root, config(round=name, repetitions=5), change=change)
        for step in (merging, limiting, summarising, bounding):
            assert main(step(results)) == 0
    out = root / "compare.html"
    rounds = ["--baseline", str(root / "results/old"), "--round", str(root / "results/new")]
    files = ["--out-tsv", str(root / "compare.tsv"), "--out-html", str(out)]
    assert main(["compare", *rounds, *files]) == 3
    return out


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_the_regressions_first_and_asks_for_nothing(
    browser,
    page,
    width,
    scheme,
):
    size = {"width": width, "height": 800}
    with Visit(browser, page, offline=True, color_scheme=scheme, viewport=size) as visit:
        asked = [url for url in visit.requests if not url.startswith("data:")]
        assert asked == [page.as_uri()] and visit.complaints == []
        assert visit.page.locator("h3").first.inner_text() == "Regressions"
        first = visit.page.locator(".cells tbody tr").first
        assert "PyTorch" in first.inner_text() and "-16.7 %" in first.inner_text()
        assert visit.page.locator(".ratio svg").first.is_visible()
        assert "layout: NHWC → NCHW" in visit.page.locator(".cells").first.inner_text()
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1280])
def test_it_is_seen_whole_on_a_phone_and_on_a_laptop(browser, page, width):
    with Visit(browser, page, viewport={"width": width, "height": 900}) as visit:
        open_everything(visit.page)
        assert over_the_edge(visit.page) == [] and scrolling(visit.page) == set()
        assert tall_rows(visit.page) == []
