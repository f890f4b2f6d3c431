"""report.html in a real browser: offline, without errors, on any screen, by keyboard, by ear."""

from pathlib import Path

import pytest
from analysis_steps import bounding, limiting, merging, summarising
from axe_playwright_python.sync_playwright import Axe
from generated_round import all_ok, all_pass, config, stretch, write_round
from layout import open_everything, over_the_edge, scrolling, tall_rows
from playwright.sync_api import Browser, Page, expect

from dlperf import plan
from dlperf.analysis.__main__ import main
from dlperf.analysis.report.page import CONTENTS
from dlperf.analysis.round import names

HEADINGS = tuple(heading for name, heading in CONTENTS if name not in ("beside", "searches"))


def some_fail(case: plan.Case, repetition: int) -> tuple[str, str]:
    if case.framework == "mxnet" and case.devices_per_node == 2:
        return "crashed", "rank 1: ended with signal 11; last words: <b>Segmentation fault</b>"
    return ("timeout", "not done after 300 s") if repetition == 3 else ("ok", "")


def all_fail(case: plan.Case, repetition: int) -> tuple[str, str]:
    return "crashed", "ImportError: no library"


def some_not_equivalent(case: plan.Case) -> str:
    """OneFlow's certificates fail, JAX's of two ranks is missing, all others pass."""
    if case.framework == "oneflow":
        return "float64-update:block12.conv2.weight"
    return "missing" if case.framework == "jax" and case.devices_per_node == 2 else "passed"


def wordy_fail(case: plan.Case, repetition: int) -> tuple[str, str]:
    """As some_fail, with the last words of a real library."""
    status, reason = some_fail(case, repetition)
    word = "mxnet::op::ConvolutionOp::Forward(mshadow::Stream<cpu>*,std::vector<TBlob>const&)"
    return status, f"{reason} (core dumped) in {word} " * 2 if status == "crashed" else reason


def disturbed(record: dict) -> None:
    """TensorFlow 1 and MindSpore had company."""
    if record["identity"]["framework"] in ("tensorflow1", "mindspore"):
        record["host"] |= {"idle_share_before": 0.6, "foreign_cpu_share": 0.13}


def make(
    root: Path,
    fate,
    frameworks: list[str] | None = None,
    change=None,
    verdict=some_not_equivalent,
) -> Path:
    """The report of a generated round, by the same commands as the workflow's rules."""
    mapping = config(frameworks=frameworks) if frameworks else config()
    results = write_round(root, mapping, fate=fate, change=change, verdict=verdict)
    cells = str(results / "cells.tsv")
    settings = ["--config", str(results / "config.yaml")]
    for step in (merging, limiting, summarising, bounding):
        assert main(step(results)) == 0
    for name in names.figure_ids(plan.expand(plan.load(mapping))):
        svg, png = (str(results / "figures" / f"{name}.{kind}") for kind in ("svg", "png"))
        options = ["--cells", cells, "--figure", name, "--svg", svg, "--png", png]
        assert main(["figure", *options]) == 0
    out = results / "report.html"
    places = ["--round", str(results), "--shared", str(results.parent), "--out", str(out)]
    assert main(["report", *settings, *places]) == 0
    return out


@pytest.fixture(scope="module", params=["some fail", "all fail", "measured"])
def report(request, tmp_path_factory) -> Path:
    if request.param == "measured":
        return request.getfixturevalue("measured_round") / "results/small/report.html"
    fate = {"some fail": some_fail, "all fail": all_fail}[request.param]
    return make(tmp_path_factory.mktemp("report"), fate)


@pytest.fixture(scope="module")
def with_failures(tmp_path_factory) -> Path:
    """A small round in which something failed, is not equivalent, and is fine."""
    return make(tmp_path_factory.mktemp("failures"), some_fail, ["pytorch", "mxnet", "oneflow"])


@pytest.fixture(scope="module")
def crowded(tmp_path_factory) -> Path:
    """All frameworks, with suspects, failures of many words, and certificates that fail."""
    return make(tmp_path_factory.mktemp("crowded"), wordy_fail, change=disturbed)


class Visit:
    """An opened page, with everything that it asked for or complained about."""

    def __init__(self, browser: Browser, path: Path, place: str = "", **options) -> None:
        self.context = browser.new_context(**options)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri() + place)

    def __enter__(self) -> "Visit":
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_it_loads_without_an_error_or_a_request(browser, report):
    with Visit(browser, report, offline=True) as visit:
        asked = [url for url in visit.requests if not url.startswith("data:")]
        assert asked == [report.as_uri()]
        assert visit.complaints == []


def test_its_headings_are_there_and_in_order(browser, report):
    with Visit(browser, report) as visit:
        assert visit.page.locator("h1").count() == 1
        assert tuple(visit.page.locator("h2").all_inner_texts()) == HEADINGS
        levels = visit.page.eval_on_selector_all(
            "h1, h2, h3, h4", "all => all.map(each => Number(each.tagName[1]))"
        )
        steps = zip(levels, levels[1:], strict=False)
        assert all(after <= before + 1 for before, after in steps)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_visible_and_has_words(browser, report, scheme):
    with Visit(browser, report, color_scheme=scheme) as visit:
        figures = visit.page.locator("figure svg").all()
        assert figures
        for figure in figures:
            box = figure.bounding_box()
            assert box and box["width"] > 300 and box["height"] > 100
            assert figure.get_attribute("role") == "img"
            assert len(figure.get_attribute("aria-label") or "") > 40
        ink, paper = visit.page.evaluate(
            """() => {
                const text = document.querySelector('figure svg text');
                const paper = getComputedStyle(document.body).backgroundColor;
                return [getComputedStyle(text).fill, paper];
            }"""
        )
        assert ink != paper


def test_what_is_not_equivalent_says_so_without_colour(browser, report):
    with Visit(browser, report) as visit:
        for table in visit.page.locator("table.certificates").all():  # and of spot checks
            assert table.is_visible()
            for word, sign in (("passed", "✓"), ("failed", "✗")):
                for cell in table.locator(f"td.{word}").all():
                    assert cell.inner_text().startswith(sign)
        for cell in visit.page.locator(".medians td.unequal").all():
            assert "not equivalent" in cell.inner_text()
            assert cell.locator("sup").count() >= 1


def test_axe_finds_nothing_that_keeps_anyone_out(browser, with_failures):
    """All of axe's rules on a desktop in light and on a phone in dark; contrast in all four."""
    contrast = {"runOnly": ["color-contrast"]}
    with Visit(browser, with_failures) as visit:
        page = visit.page
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        page.locator("button.cell").first.click()
        for width, scheme, options in (
            (1440, "light", {}),
            (1440, "dark", contrast),
            (360, "dark", {}),
            (360, "light", contrast),
        ):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page, options=options)
            assert found.violations_count == 0, found.generate_report()


def test_it_says_everything_without_its_script(browser, report):
    with Visit(browser, report, java_script_enabled=False) as visit:
        assert visit.complaints == []
        assert not visit.page.locator("#explorer").is_visible()
        visit.page.locator("#cells-details").evaluate("each => each.open = true")
        assert visit.page.locator("#all-cells tbody tr").first.is_visible()


def test_columns_sort_and_say_so(browser, report):
    with Visit(browser, report) as visit:
        visit.page.locator("#cells-details").evaluate("each => each.open = true")
        table = visit.page.locator("#all-cells")
        first = table.locator("tbody th")
        as_planned = first.all_inner_texts()
        heading = table.locator("thead th").first
        heading.get_by_role("button").focus()
        for order, wanted in (
            ("ascending", sorted(as_planned, key=str.lower)),
            ("descending", sorted(as_planned, key=str.lower, reverse=True)),
            (None, as_planned),
        ):
            visit.page.keyboard.press("Enter")
            expect(heading).to_have_js_property("ariaSort", order)
            expect(first).to_have_text(wanted)


def drawn(page: Page) -> list[str]:
    """What the explorer's plots say beside their lines: values and shares, or what happened."""
    page.locator("#explorer").scroll_into_view_if_needed()
    expect(page.locator(".plot:not(:has(svg))")).to_have_count(0)
    said = page.locator(".plot .mark-text.role-mark text").all_text_contents()
    return list(filter(None, said))


def test_the_explorer_has_every_cell_and_dots_for_its_repetitions(browser, with_failures):
    with Visit(browser, with_failures) as visit:
        page = visit.page
        said = drawn(page)
        assert len(said) == page.locator("#all-cells tbody tr").count()
        assert said.count("crashed") == 1 and said.count("27.36 (100 %)") == 1
        dots = page.locator(".plot .mark-symbol.role-mark path")
        with_values = page.locator("#repetitions tbody tr", has_text=" – ")
        assert dots.count() == with_values.count() > 0
        spoken = [
            each.get_attribute("aria-label") or ""
            for each in page.locator("[role=graphics-document]").all()
        ]
        assert len(spoken) == 2 and all("images/s. PyTorch: " in text for text in spoken)


def test_the_explorer_and_the_table_show_the_cells_that_were_chosen(browser, with_failures):
    with Visit(browser, with_failures) as visit:
        page = visit.page
        rows = page.locator("#all-cells tbody tr")
        every = rows.count()
        page.get_by_role("checkbox", name="PyTorch").check()
        assert 0 < len(drawn(page)) == rows.count() < every
        assert all("PyTorch" in text for text in rows.all_inner_texts())
        page.get_by_role("checkbox", name="1n1d").check()
        assert len(drawn(page)) == rows.count() == 1
        page.get_by_role("button", name="Show all").click()
        expect(rows).to_have_count(every)
        assert len(drawn(page)) == every
        page.get_by_role("checkbox", name="only with a certificate").check()
        assert not any("OneFlow" in text for text in rows.all_inner_texts())


def test_the_explorer_compares_by_any_metric_the_best_first(browser, with_failures):
    with Visit(browser, with_failures) as visit:
        page = visit.page
        page.get_by_role("combobox", name="by", exact=True).select_option(label="step time")
        shares = [int(text.split("(")[1].split(" ")[0]) for text in drawn(page) if "(" in text]
        assert shares[0] == 100 and min(shares) == 100 and max(shares) > 100
        page.get_by_role("combobox", name="by", exact=True).select_option(label="throughput")
        page.get_by_role("combobox", name="Compare").select_option(label="nodes and devices")
        headings = page.locator(".groups h3")
        assert headings.count() == 3 and "PyTorch" in headings.first.inner_text()
        assert drawn(page)[:2] == ["27.36 (100 %)", "14.22 (52 %)"]


def test_the_explorer_never_calls_a_suspect_the_best(browser, tmp_path):
    """Its record says 2.6 times its best rival, and losses that no rival has."""

    def change(record) -> None:
        if record["identity"]["framework"] == "mxnet":
            stretch(record, 1 / 2.95)
            record["steps"]["loss"] = [loss + 0.1 for loss in record["steps"]["loss"]]

    frameworks = ["pytorch", "mxnet", "tensorflow"]
    path = make(tmp_path, all_ok, frameworks, change, verdict=all_pass)
    with Visit(browser, path, "#explorer") as visit:
        page = visit.page
        said = drawn(page)
        assert said[0].endswith("(100 %)") and len(said) == 6
        assert "%" not in said[2] and float(said[2]) > 2 * float(said[0].split()[0])
        assert "MXNet [static] (excluded: suspect)" in page.locator(".plot").all_inner_texts()[0]
        marked = page.locator(".medians td.unequal").all_inner_texts()
        assert len(marked) == 2 and all("✗ suspect" in text for text in marked)
        assert "MXNet" not in page.locator("#standings").inner_text()


def test_the_explorer_says_more_of_a_cell_that_is_pointed_at_and_never_as_html(
    browser, with_failures
):
    with Visit(browser, with_failures) as visit:
        page = visit.page
        drawn(page)
        page.locator(".plot text", has_text="crashed").hover()
        tooltip = page.locator("#vg-tooltip-element")
        expect(tooltip).to_contain_text("last words: <b>Segmentation fault</b>")
        page.locator(".plot .mark-symbol.role-mark path").first.hover()
        expect(tooltip).to_contain_text("of 3 repetitions")


def test_a_cell_opens_for_its_repetitions_with_their_records_and_logs(browser, with_failures):
    with Visit(browser, with_failures) as visit:
        page = visit.page
        cell = page.locator("button.cell").first
        cell.focus()
        page.keyboard.press("Enter")
        assert cell.get_attribute("aria-expanded") == "true"
        runs = page.locator("table.runs")
        records, logs = (
            [link.get_attribute("href") for link in runs.get_by_role("link", name=kind).all()]
            for kind in ("record", "log")
        )
        assert records and all((with_failures.parent / path).is_file() for path in records)
        assert [path.removesuffix(".json") for path in records] == [
            path.removesuffix(".log") for path in logs
        ]
        page.keyboard.press("Enter")
        assert page.locator("table.runs").count() == 0


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_the_page_never_scrolls_sideways(browser, report, width):
    with Visit(browser, report, viewport={"width": width, "height": 800}) as visit:
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_can_be_read_without_a_mouse(browser, report):
    with Visit(browser, report) as visit:
        details = visit.page.locator("details").last
        details.locator("summary").focus()
        visit.page.keyboard.press("Enter")
        assert details.get_attribute("open") is not None
        assert details.locator("table").is_visible()
        unreachable = visit.page.evaluate(
            """() => [...document.querySelectorAll('.scroll, .chart, pre')]
                     .filter(each => each.tabIndex < 0).length"""
        )
        assert unreachable == 0


#: The tables of a column a tier or a value, a line a row, which may scroll in their boxes.
WIDE = {"all-cells", "certificates-table", "checks-table", "repetitions"}


@pytest.mark.parametrize("width", [390, 768, 1280, 1408])
@pytest.mark.parametrize("script", [True, False], ids=["with script", "without"])
def test_nothing_is_wider_than_the_screen(browser, crowded, width, script):
    size = {"width": width, "height": 900}
    with Visit(browser, crowded, viewport=size, java_script_enabled=script) as visit:
        open_everything(visit.page)
        assert over_the_edge(visit.page) == []
        if width >= 1280:
            assert scrolling(visit.page) <= WIDE


@pytest.mark.parametrize("width", [390, 1280])
def test_a_row_is_as_high_as_what_is_seen_of_it(browser, crowded, width):
    with Visit(browser, crowded, viewport={"width": width, "height": 900}) as visit:
        open_everything(visit.page)
        assert visit.page.locator("#suspect-cells tbody tr").count() == 4
        assert tall_rows(visit.page) == []


def test_on_a_phone_the_values_of_a_row_stand_below_each_other_with_their_names(browser, crowded):
    with Visit(browser, crowded, viewport={"width": 390, "height": 900}) as visit:
        assert scrolling(visit.page).isdisjoint(
            {"standings", "suspect-cells", "missing-table", "table-resnet50-train-fp32-b8-medians"}
        )
        unnamed = visit.page.evaluate(
            """() => [...document.querySelectorAll(".stacks td")].filter(cell => cell.textContent
                && getComputedStyle(cell, "::before").content.length < 4).length"""
        )
        assert unnamed == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_the_words_of_a_figure_are_as_large_as_can_be_read(browser, crowded, width):
    """It scrolls in its box where it would be smaller, which is said above it."""
    with Visit(browser, crowded, viewport={"width": width, "height": 900}) as visit:
        smallest = visit.page.evaluate(
            """() => Math.min(...[...document.querySelectorAll("figure svg")].map(svg => {
                const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
                const sizes = [...svg.querySelectorAll("text")].map(text =>
                    parseFloat(getComputedStyle(text).fontSize));
                return scale * Math.min(...sizes);
            }))"""
        )
        assert smallest >= 7
        chart = visit.page.locator("figure .chart").first
        hint = chart.evaluate("each => getComputedStyle(each, '::before').content")
        scrolls = chart.evaluate("each => each.scrollWidth > each.clientWidth + 1")
        assert scrolls == ("goes on" in hint) == (width == 390)


def test_the_first_column_of_a_wide_table_stays_in_sight(browser, crowded):
    with Visit(browser, crowded, viewport={"width": 1280, "height": 900}) as visit:
        box = visit.page.locator(".scroll", has=visit.page.locator("#certificates-table"))
        box.focus()
        visit.page.keyboard.press("End")
        box.evaluate("each => each.scrollLeft = each.scrollWidth")
        name = box.locator("tbody th").first.bounding_box()
        around = box.bounding_box()
        assert abs(name["x"] - around["x"]) < 1
        assert box.evaluate("each => getComputedStyle(each).maskImage") in ("none", "")  # focused


def test_a_printed_page_cuts_nothing(browser, crowded):
    """A4 with its margins is 182 mm wide. The table of all cells is for the screen."""
    with Visit(browser, crowded, viewport={"width": 688, "height": 1000}) as visit:
        visit.page.emulate_media(media="print")
        visit.page.locator("#all-cells").evaluate("each => each.remove()")
        assert over_the_edge(visit.page) == []
