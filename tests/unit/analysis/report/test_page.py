"""The report: one page that says what was measured, what was not, and how sure it is."""

import base64
import hashlib
import json
import re

import pytest
from analysed_round import SMALL, analyse, mxnet_fails, write_report
from generated_round import config, stretch, write_environment, write_round

from dlperf.analysis.report import explorer, summary
from dlperf.analysis.round import metrics
from dlperf.analysis.schema.files import read_table
from dlperf.scenarios import train

MODULE = re.compile(r'(?<=<script type="module">).*?(?=</script>)', re.DOTALL)


@pytest.fixture
def results(tmp_path):
    return write_round(tmp_path, SMALL)


def test_the_page_needs_nothing_but_itself(results):
    page = write_report(results, figures=True)
    assert page.open == []
    for reference in page.references:
        if not reference.startswith(("#", "data:")):
            assert (results / reference).is_file() or reference.endswith(".png"), reference
    text = MODULE.sub("", (results / "report.html").read_text())
    outside = set(re.findall(r"url\((?!#)[^)]*\)|@import[^;]*|\bsrc=", text))
    assert outside == set()


def test_only_the_reports_own_scripts_may_run_and_nothing_may_load(results):
    write_report(results)
    text = (results / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    modules = MODULE.findall(text)
    digests = [hashlib.sha256(module.encode()).digest() for module in modules]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    assert f"script-src {allowed};" in policy and "default-src 'none'" in policy
    assert len(modules) == 3  # the table library, the plotting library, what joins them


def test_the_libraries_keep_their_notices_and_cannot_end_their_script(results):
    page = write_report(results)
    modules = MODULE.findall((results / "report.html").read_text())
    said = "".join(modules)
    assert "DataTables 2" in said and "SpryMedia" in said and "jQuery JavaScript Library" in said
    assert "Interactive Data Lab" in said and "BSD-3-Clause" in said
    assert "</script" not in said.lower() and "<!--" not in said
    assert page.open == []


def test_ids_are_unique_and_every_link_has_its_place(results):
    page = write_report(results, figures=True)
    assert len(page.ids) == len(set(page.ids))
    assert {reference[1:] for reference in page.references if reference[0] == "#"} <= {*page.ids}


def test_every_number_of_the_tables_and_every_record_is_there(results):
    page = write_report(results)
    for row in read_table(results / "cells.tsv"):
        assert f"{row['median']:.2f}" in page.text
    for row in read_table(results / "measurements.tsv.gz"):
        assert row["record_sha256"] in page.text


def test_it_says_what_the_numbers_are_not(results):
    said = write_report(results).text
    assert "64×64 px images — reduced from the standard 224×224" in said
    assert "the interval's coverage is only 75 %" in said
    assert "4 of 4 certificates passed." in said and "Not equivalent" not in said
    assert "No two repetitions ran on one host at the same time" in said


def test_failures_environments_and_reasons_are_listed(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    write_environment(tmp_path, "mxnet", "cpu", reason="no wheel for this platform")
    said = write_report(results).text
    assert "no wheel for this platform" in said
    assert "out of memory rank 0: no memory left" in said
    assert "fewer repetitions median of 2 of 3 repetitions" in said


def test_settings_that_differ_are_marked(results):
    text = write_report(results) and (results / "report.html").read_text()
    marked = (
        r'<tr class="differs"><th scope="row">layout <span class="interval">differs</span></th>'
    )
    assert re.search(marked, text)
    assert re.search(r'<tr><th scope="row">threads</th>', text)


def test_many_repetitions_hashes_stand_as_one_of_all(tmp_path):
    def drawn(record):
        batches = f"{record['identity']['repetition']}".encode()
        digest = hashlib.sha256(batches).hexdigest()
        if record["identity"]["framework"] == "mxnet":
            digest = hashlib.sha256(b"others" + batches).hexdigest()
        record["parity"]["data_digest"] = digest

    results = write_round(tmp_path, config(frameworks=["pytorch", "jax", "mxnet"]), change=drawn)
    analyse(results)
    write_report(results)
    page = (results / "report.html").read_text()
    found = re.findall(r"hashes, together ([0-9a-f]{12})", page)
    assert len(found) == 3 and len(set(found)) == 2  # PyTorch and JAX have the same batches
    assert hashlib.sha256(b"1").hexdigest()[:12] not in page


def test_a_round_in_which_everything_failed_says_so(tmp_path):
    def crash(case, repetition):
        return "crashed", "ImportError: <no> library"

    page = write_report(write_round(tmp_path, SMALL, fate=crash))
    assert "Nothing was measured" in page.text and "12 crashed" in page.text
    assert "ImportError: <no> library" in page.text


def test_a_round_in_which_nothing_ran_yet_says_so(tmp_path):
    page = write_report(
        write_round(tmp_path, SMALL, fate=lambda case, repetition: ("missing", "")), figures=False
    )
    assert "Nothing was measured" in page.text and "12 not measured" in page.text


def test_a_difference_that_may_be_chance_makes_no_winner(tmp_path):
    def same(record):
        speed = 10 + 0.1 * record["identity"]["repetition"]
        speed *= record["identity"]["devices_per_node"]
        stretch(record, record["samples"] / speed / train.window_seconds(record))

    mapping = {**SMALL, "repetitions": 6}
    said = write_report(write_round(tmp_path, mapping, change=same)).text
    assert "it is not significantly different from" in said
    assert "significantly different from all others" not in said


def test_the_summary_claims_what_the_ranks_claim_and_no_more(tmp_path):
    """Of eight frameworks whose speeds are close, some as good as the best and some not."""
    results = write_round(tmp_path, config(repetitions=5), noise=0.05)
    rows = analyse(results)
    found = summary.standings(rows, read_table(results / "measurements.tsv.gz"))
    assert [len(each.tied) for each in found] != [0] * len(found)
    for each in found:
        assert (each.best["rank"], each.best["rank_last"]) == (1, 1 + len(each.tied))
        own = [row for row in rows if row["devices_per_node"] == each.best["devices_per_node"]]
        worse = [row for row in own if row["rank"] > each.best["rank_last"]]
        assert not {row["framework"] for row in worse} & {row["framework"] for row in each.tied}


def test_the_lowest_step_time_is_significantly_different_as_its_rank_says(tmp_path):
    results = write_round(tmp_path, {**SMALL, "repetitions": 5})
    analyse(results)
    rows = metrics.select(read_table(results / "cells.tsv"), "step_time")
    for each in summary.standings(rows, read_table(results / "measurements.tsv.gz")):
        assert each.best["framework"] == "pytorch" and not each.tied
        assert each.best["rank_last"] == 1


def test_it_says_how_sure_its_numbers_are(tmp_path):
    def change(record):
        hours = (record["window"][0]["start_utc"] - 1795237200) / 3600
        stretch(record, 1 + hours)
        identity = record["identity"]
        own = identity["framework"], identity["devices_per_node"], identity["repetition"]
        if own == ("mxnet", 1, 2):
            stretch(record, 1.5)

    mapping = {**SMALL, "repetitions": 6}
    page = write_report(write_round(tmp_path, mapping, change=change, noise=0.001))
    said = " ".join(page.text.split())
    assert "how-sure" in page.ids
    assert re.search(r"node1 became \d+\.\d+ % slower in 0\.1 hours and 24 repetitions", said)
    assert "That is drift" in said and "slower than the first" in said
    assert "smallest detectable difference of a cell is" in said
    assert "1 repetition in 1 cell of 4 is an outlier: marked, and kept" in said
    assert "outlier, low" in said
    assert "All ranks are shared" not in said


def test_three_repetitions_are_said_to_rank_nothing_and_how_many_would_do(tmp_path):
    said = " ".join(write_report(write_round(tmp_path, config())).text.split())
    assert (
        "All ranks are shared: with fewer than 4 repetitions no difference is significant." in said
    )
    assert "Of 8 cells, 4 repetitions find one of 5.6 standard deviations in 80 %" in said
    assert "no difference is significant, however large" in said
    assert "So few show no significant difference; it takes 4 or more." in said
    assert "is significantly better than all others" not in said


def test_a_round_without_manifest_or_env_json_still_reports(tmp_path):
    results = write_round(tmp_path, config(frameworks=["pytorch"]))
    for path in [*tmp_path.rglob("env.json"), *tmp_path.rglob("manifest.json")]:
        path.unlink()
    assert "does not exist" in write_report(results).text


def test_the_same_round_gives_the_same_page(results):
    write_report(results, figures=True)
    first = (results / "report.html").read_bytes()
    write_report(results)
    assert (results / "report.html").read_bytes() == first


def test_photographs_and_prose_stand_side_by_side(tmp_path):
    both = {
        **config()["workloads"],
        "bert": {
            "precisions": ["fp32"],
            "batch_sizes": {"fp32": [2]},
            "data": ["sample"],
            "sequence_length": 32,
        },
    }
    results = write_round(tmp_path, config(workloads=both, frameworks=["pytorch", "jax"]))
    text = write_report(results).text
    assert "512 images in 32 class folders" in text
    assert "918,785 tokens in 1,189 documents" in text
    assert "BERT-Base" in text and "ResNet-50" in text


def test_the_summary_says_what_won_by_how_much_and_how_sure(tmp_path):
    results = write_round(tmp_path, {**SMALL, "repetitions": 5})
    said = write_report(results).text
    top = said[said.index("What ran") : said.index("Before you compare")]
    assert "In 2 of 2 comparisons one is significantly better than all others" in top
    assert "PyTorch in ResNet-50 v1.5 training (fp32, batch 8, 1 node × 1 device), at 1.1" in top
    assert "holds the true median with a probability of 93.8 %" in top
    assert "would still be found with a probability of 5 %" in top
    assert "All 4 cells have a number. None is suspect." in top
    assert "✓ significant from the other" in top


def test_what_lacks_is_in_the_summary(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    said = write_report(results).text
    lacking = said[said.index("What is missing") : said.index("Before you compare")]
    assert "1 of 4 cells without a number (1 out of memory)" in lacking
    assert "1 with fewer repetitions than asked for" in lacking


def test_the_explorer_has_every_cell_and_every_repetition(tmp_path):
    results = write_round(tmp_path, SMALL, fate=mxnet_fails)
    write_report(results)
    text = (results / "report.html").read_text()
    found = json.loads(re.search(r'id="explorer-data">(.*?)</script>', text, re.DOTALL)[1])
    runs = {
        f"{cell['folder']}/rep{number}.json": values.get("own")
        for cell in found["cells"]
        for number, _, _, recorded, _, values in cell["runs"]
        if recorded
    }
    measured = read_table(results / "measurements.tsv.gz")
    assert set(runs) == {row["record"] for row in measured if row["record"]}
    for row in measured:
        if row["status"] == "ok":
            assert runs[row["record"]] == pytest.approx(row["throughput"], rel=1e-5)
    assert all((results / path).is_file() for path in runs)


def test_a_column_that_cells_gain_is_in_the_table_of_all_cells(results, monkeypatch):
    write_report(results)
    cells = metrics.select(read_table(results / "cells.tsv"))
    for place, cell in enumerate(cells):
        cell["new_number"] = 0.5 + place
    known = explorer.columns.CELL
    monkeypatch.setattr(explorer.columns, "CELL", (*known, "new_number"))
    table = explorer.table(cells)
    place = [heading for heading, _ in table.headings].index("New number")
    assert [line[-1][place].text for line in table.lines] == ["0.5", "1.5", "2.5", "3.5"]


def test_reasons_and_packages_cannot_inject(tmp_path):
    results = write_round(tmp_path, SMALL)
    path = tmp_path / "results/environments/pytorch.cpu/env.json"
    environment = json.loads(path.read_text())
    environment["freeze"] = ["<script>alert(1)</script>"]
    path.write_text(json.dumps(environment))
    assert write_report(results).tags.count("script") == 5  # libraries, the page's own, its data
