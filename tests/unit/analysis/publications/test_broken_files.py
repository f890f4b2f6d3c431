"""CSV files and YAML files of publications that are broken, odd or bare: right, or one message."""

import csv
import io
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlperf.analysis.__main__ import main
from dlperf.analysis.publications import config as configs
from dlperf.analysis.publications import rows as rows_of
from dlperf.analysis.publications import speedups
from dlperf.analysis.publications.values import COLUMNS, not_a_number
from dlperf.analysis.schema.files import AnalysisError, read_table
from dlperf.plan import ConfigError

PUBLISHED = ROOT / "config/published"
ROW = {
    **dict.fromkeys(COLUMNS, ""),
    **{"framework": "pytorch", "implementation": "mine", "workload": "resnet50"},
    **{"precision": "fp32", "nodes": "1", "devices_per_node": "1", "batch_size": "64"},
    **{"data": "synthetic", "metric": "throughput", "value": "391.5", "unit": "images/s"},
    **{"source": "p.1"},
}
LATENCY = {"scenario": "infer", "metric": "latency", "value": "4.5", "unit": "ms"}


@pytest.fixture(autouse=True)
def _in_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def text_of(*rows: dict[str, str], separator: str = ",", end: str = "\n") -> str:
    names = list(dict.fromkeys(key for row in ({**ROW, **row} for row in rows) for key in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, delimiter=separator, lineterminator=end)
    writer.writeheader()
    writer.writerows({**ROW, **row} for row in rows)
    return stream.getvalue()


def publication(folder: Path, content: str | bytes, name: str = "mine", more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    made = folder / f"{name}.yaml"
    made.write_text(f"round: imported-{name}\ntitle: T\nfiles: [{path}]\n{more}")
    return made


def refused(capsys, config: Path) -> str:
    """The one message with which an import is refused; nothing is written."""
    out = config.parent / f"imported-{config.stem}"
    assert main(["import", "--config", str(config), "--out", str(out)]) == 1
    assert not out.exists()
    error: str = capsys.readouterr().err
    assert error.startswith("error: ") and "Traceback" not in error
    return error


def page(config: Path, published: Path | None = None) -> str:
    """Everything that the rules make of a publication; its page."""
    folder = config.parent / f"imported-{config.stem}"
    runs = ["--config", str(folder / "config.yaml"), "--runs", str(folder / "runs")]
    names = {
        name.partition(".")[0]: str(folder / name)
        for name in ("measurements.tsv.gz", "parity.tsv", "certificates.tsv", "checks.tsv")
    }
    made = [text for key, path in names.items() for text in (f"--{key}", path)]
    shared = ["--shared", str(folder.parent), "--sums", str(folder / "SHA256SUMS")]
    assert main(["import", "--config", str(config), "--out", str(folder)]) == 0
    assert main(["merge", *runs, *shared, *made]) == 0
    asked = [text for text in made if text not in ("--parity", names["parity"])]
    assert main(["cells", *asked, "--out", str(folder / "cells.tsv")]) == 0
    assert main(["values", *runs, "--out", str(folder / "values.tsv")]) == 0
    given = ["--published", str(published or config.parent)]
    assert main(["replay", "--round", str(folder), *given]) == 0
    assert (folder / "tables").is_dir() and (folder / "figures").is_dir()
    return (folder / "report.html").read_text()


# ---- the file


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (text_of({}, separator=";"), "line 1: its fields are separated by semicolons (';')"),
        (text_of({"value": "391,5"}, separator=";"), "save it with commas between fields"),
        (text_of({}, separator="\t"), "line 1: its fields are separated by tabs"),
        (text_of({}, separator="|"), "line 1: its fields are separated by bars"),
        ("sep=;\n" + text_of({}, separator=";"), "separated by semicolons"),
        (
            text_of({}).replace("framework", "Framework"),
            "the column 'framework' is missing; is it 'Framework'?",
        ),
        (
            text_of({}).replace("devices_per_node", "Devices per node"),
            "the column 'devices_per_node' is missing; is it 'Devices per node'?",
        ),
        (text_of({}).replace("implementation", "unit", 1), "'unit' stands twice, as columns 2 and"),
        (text_of({}).replace("compiler", "", 1), "line 1: column 6 has no name"),
        (text_of({}).partition("\n")[0] + "\n", "has a header and no rows below it"),
        (text_of({}).partition("\n")[0] + "\n,,,,\n\n", "has a header and no rows below it"),
        ("", "is empty; its first line must name the columns"),
        ("\n,,\n", "is empty; its first line must name the columns"),
        (text_of({}).encode("utf-16"), "line 1: is not UTF-8 text"),
        (text_of({}).encode("utf-16-le"), "is not UTF-8 text, perhaps UTF-16"),
        (text_of({"note": "größer"}).encode("latin-1"), "line 2: is not UTF-8 text"),
        (text_of({}) + 'a,"b\n', "line 3: is not CSV: unexpected end of data"),
        (text_of({}).replace("391.5", "1,391.5"), "line 2: has 18 fields, and the header has 17"),
        (text_of({}).replace(",p.1,", ""), "line 2: has 15 fields, and the header has 17"),
        (text_of({"Hardware": "V100"}), "the column 'Hardware' is no word of a-z, 0-9 and _"),
        (text_of({"status": "ok"}), "the column 'status' is the name of another column"),
        (text_of({"unsaid": "data"}), "the column 'unsaid' is the name of another column"),
        (text_of({"inferred": "gpu"}), "line 2: inferred: 'gpu' is not known"),
    ],
)
def test_a_file_that_is_no_such_table_gets_one_message(content, said, tmp_path, capsys):
    error = refused(capsys, publication(tmp_path, content))
    assert f"{tmp_path}/mine.csv: " in error and said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + text_of({}, end="\r\n").encode(),
        text_of({}, end="\r"),
        text_of({}).replace(",", " ,  "),
        "\n" + text_of({}).replace("\n", ",,,\n") + "\n,,,,,\n\n",
        text_of({"note": "two\nlines"}),
        text_of({"note": "a line\u2028that some take for two"}),
        "\n".join(f'"{line}"'.replace(",", '","') for line in text_of({}).splitlines()),
        text_of({}).rstrip("\n"),
    ],
    ids=["mark and CRLF", "CR", "blanks", "empty columns", "quoted", "U+2028", "quotes", "no end"],
)
def test_what_programs_write_around_the_fields_changes_nothing(content, tmp_path):
    config = publication(tmp_path, content)
    out = tmp_path / "imported-mine"
    assert main(["import", "--config", str(config), "--out", str(out)]) == 0
    (record,) = out.glob("runs/**/rep1.json")
    assert '"value": 391.5' in record.read_text()


# ---- values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("391,53", "has a decimal comma; write 391.53"),
        ("1.391,53", "has a decimal comma; write 1391.53"),
        ("1,391.53", "has commas between thousands; write 1391.53"),
        ("1,391,530", "has commas between thousands; write 1391530"),
        ("1,391", "has a comma, of thousands or of decimals; write 1391 or 1.391"),
        ("1 391.5", "has a mark between thousands; write 1391.5"),
        ("1\u202f391", "has a mark between thousands; write 1391"),
        ("1_391", "has a mark between thousands; write 1391"),
        ("391.5 images/s", "is more than a number; write 391.5, and 'images/s' into"),
        ("4.5ms", "is more than a number; write 4.5, and 'ms' into the column `unit`"),
        ("76 %", "write 76, and '%' into the column `unit`"),
        ("NaN", "is not a number; leave it empty where there is none"),
        ("-", "is not a number; leave it empty where there is none"),
        ("OOM", "is not a number; leave it empty, and write that into `note`"),
        ("inf", "is not a number; leave it empty"),
        ("1e999", "is not a finite number"),
        ("fast", "is not a number, such as 391.53"),
        ("٣٩١", "is not a number, such as 391.53"),
        ("\u2212391", "is not a number, such as 391.53"),
        ("-391.5", "value: -391.5 is not above 0"),
        ("0", "value: 0.0 is not above 0"),
    ],
)
def test_a_value_that_is_no_number_says_how_it_is_written(text, said, tmp_path, capsys):
    error = refused(capsys, publication(tmp_path, text_of({}, {"value": text, "repetition": "2"})))
    assert f"{tmp_path}/mine.csv: line 3: value: " in error and said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        ("nodes", "1.0", "nodes: '1.0' is not a whole number from 1"),
        ("nodes", "1,000", "nodes: '1,000' is not a whole number from 1"),
        ("devices_per_node", "8 GPUs", "devices_per_node: '8 GPUs' is not a whole number from 1"),
        ("batch_size", "²", "batch_size: '²' is not a whole number from 1"),
        ("batch_size", "max", "batch_size: 'max' is not a whole number from 1"),
        ("repetition", "9" * 5000, "is not a whole number from 1"),
        ("data", "ImageNet", "data: 'ImageNet' String should match pattern"),
        ("metric", "m" * 300, "String should have at most 64 characters"),
        ("implementation", "m" * 300, "String should have at most 80 characters"),
        ("image_size", "²", "image_size: '²' is not a whole number"),
        ("accumulation", "9" * 5000, "is no whole number, 1 or more"),
    ],
)
def test_a_count_that_is_none_is_named_by_line_and_column(column, text, said, tmp_path, capsys):
    error = refused(capsys, publication(tmp_path, text_of({column: text})))
    assert f"{tmp_path}/mine.csv: line 2: {column}: " in error and said in error
    assert len(error) < 600 + 2 * len(str(tmp_path)) + (5000 if len(text) > 400 else 0)


@pytest.mark.parametrize("metric", ["latency", "latency_per_iter", "memory", "time_to_train"])
def test_no_latency_time_or_memory_is_below_zero(metric, tmp_path, capsys):
    row = {**LATENCY, "metric": metric, "value": "-4.5"}
    assert "line 2: value: -4.5 is not above 0" in refused(
        capsys, publication(tmp_path, text_of(row))
    )


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(NUMBERS)
def test_every_number_that_python_prints_is_one(number):
    assert not not_a_number(repr(number))
    assert not not_a_number(f"{number:.3f}")


FEW = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ODD = st.one_of(
    st.sampled_from(["", ",", ";", '"', "\n", "\r", "\0", "\t", "é", "\u2028", "NaN", "-1", "1,5"]),
    st.text(max_size=6),
)


@FEW
@given(st.data())
def test_no_damage_to_a_csv_ends_in_a_traceback(tmp_path, data):
    """A piece is cut out or put in anywhere: it is imported, or refused with one message."""
    text = text_of({}, {"devices_per_node": "8", "value": "2900.1"}, LATENCY)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = text[:start] + data.draw(ODD) + text[end:]
    config = publication(tmp_path, text.encode("utf-8", errors="surrogatepass"))
    try:
        rows = rows_of.read_all(tmp_path)
        speedups.contradictions(rows, speedups.ratios(rows), tmp_path / "none.csv")
    except (AnalysisError, ConfigError) as error:
        assert f"{config.with_suffix('.csv')}: " in str(error)


@FEW
@given(st.data())
def test_no_damage_to_a_published_table_ends_in_a_traceback(tmp_path, data):
    name = data.draw(
        st.sampled_from(
            ["dlperf-v1-gpt", "nvidia-electra", "dlperf-v1-wide-deep", "dlperf-v1-common"]
        )
    )
    lines = (PUBLISHED / f"{name}.csv").read_text().splitlines()
    first = data.draw(st.integers(1, len(lines) - 1))
    table = list(csv.reader([lines[0], *lines[first : first + 6]]))
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.integers(0, len(table) - 1))
        column = data.draw(st.integers(0, len(table[0]) - 1))
        table[row][column] = data.draw(ODD | st.just("0") | st.just("²") | st.just("1|2"))
    stream = io.StringIO()
    csv.writer(stream).writerows(table)
    config = publication(tmp_path, stream.getvalue())
    try:
        rows = rows_of.read_all(tmp_path)
        speedups.contradictions(rows, speedups.ratios(rows), tmp_path / "none.csv")
    except (AnalysisError, ConfigError) as error:
        assert f"{config.with_suffix('.csv')}: " in str(error)


def test_a_dimension_of_a_latency_is_a_number_where_tables_have_numbers(tmp_path, capsys):
    error = refused(capsys, publication(tmp_path, text_of({**LATENCY, "zero_stage": "all"})))
    assert "mine.csv: line 2: zero_stage: 'all' is not a number" in error


def test_a_number_stands_in_one_file_only(tmp_path, capsys):
    config = publication(tmp_path, text_of({}))
    config.write_text(config.read_text().replace("csv]", f"csv, {tmp_path}/mine.csv]"))
    assert "mine.csv: line 2: is of the same repetition, metric and estimator as" in refused(
        capsys, config
    )


# ---- names


def test_implementations_whose_names_are_spelled_alike_stay_apart(tmp_path):
    """A folder's name has small letters only: C and C++ would share one."""
    titles = ["PyTorch", "pytorch", "PyTorch!", "飞桨", "框架", "$\\frac$", "x" * 79, "x" * 80]
    rows = [{"implementation": title, "value": f"{n}.5"} for n, title in enumerate(titles, start=1)]
    config = publication(tmp_path, text_of(*rows))
    made = page(config)
    cells = read_table(tmp_path / "imported-mine/cells.tsv")
    assert {(row["implementation"], row["median"]) for row in cells} == {
        (title, n + 0.5) for n, title in enumerate(titles, start=1)
    }
    assert "飞桨" in made
    again = {path.name for path in (tmp_path / "imported-mine/runs/resnet50").glob("*")}
    assert main(["import", "--config", str(config), "--out", str(tmp_path / "imported-mine")]) == 0
    assert {p.name for p in (tmp_path / "imported-mine/runs/resnet50").glob("*")} == again


@pytest.mark.parametrize(
    "row",
    [
        {"workload": "vit"},
        {"workload": "vit", **LATENCY},
        {"framework": "tinygrad"},
        {"framework": "tinygrad", **LATENCY},
        {"precision": "fp6"},
        {"scenario": "export", "metric": "time", "value": "3", "unit": "s"},
    ],
    ids=str,
)
def test_a_name_that_only_the_publication_knows_has_its_page(row, tmp_path):
    names = "names: [vit, tinygrad, fp6, export]\n"
    two = {**row, "devices_per_node": "8", "value": "30.5"}
    four = {**row, "devices_per_node": "4", "value": "15.5"}
    assert "30.5" in page(publication(tmp_path, text_of(row, four, two), more=names))


# ---- the page


def test_a_table_of_one_latency_has_a_page_without_figures(tmp_path):
    assert "4.5" in page(publication(tmp_path, text_of(LATENCY)))
    assert not list((tmp_path / "imported-mine/figures").iterdir())


def test_a_table_of_what_ran_out_of_memory_has_its_page(tmp_path):
    rows = [{**LATENCY, "value": "", "note": "OOM"}, {"value": "", "note": "timeout"}]
    made = page(publication(tmp_path, text_of(*rows)))
    assert "out of memory" in made


def test_scaling_above_the_devices_is_named_for_an_own_publication(tmp_path):
    bert = {"workload": "bert", "precision": "amp", "batch_size": "320", "unit": "sequences/s"}
    rows = [
        {**bert, "devices_per_node": devices, "value": value}
        for devices, value in (("1", "877"), ("4", "3182"), ("8", "9904"))
    ]
    config = publication(tmp_path, text_of(*rows))
    assert "11.29 times one device, on 8 devices" in page(config)
    out = tmp_path / "out"
    assert main(["speedups", "--published", str(tmp_path), "--out", str(out)]) == 0
    listed = (out / "contradictions.md").read_text()
    assert "11.29 times one device, on 8 devices" in listed
    assert f"{tmp_path}/mine.csv:4" in listed


@pytest.mark.parametrize(
    ("devices", "more", "said"),
    [
        (("2", "8"), {}, "4.50 times 2 devices, on 8 devices"),  # one device was not published
        (("1", "8"), {"repetition": "2"}, ""),  # 8.1 and 7.2: their median is below
        (("1", "8"), {"table": "another"}, ""),
        (("1", "8"), {"image_size": "128"}, ""),
        (("1", "8"), {"batch_size": "32"}, ""),
        (("1", "8"), {"compiler": "inductor"}, ""),
        (("1", "8"), {"hardware": "A100"}, ""),
    ],
)
def test_scaling_is_over_the_fewest_devices_of_the_same_case(devices, more, said, tmp_path):
    few, many = devices
    base = {"value": "100", "devices_per_node": few}
    rows = [base, {**more, "value": "450" if few == "2" else "810", "devices_per_node": many}]
    if "repetition" in more:
        rows += [
            {"value": value, "devices_per_node": many, "repetition": n}
            for n, value in (("1", "720"), ("3", "730"))
        ]
    publication(tmp_path, text_of(*rows))
    found = rows_of.read_all(tmp_path)
    listed = speedups.contradictions(found, speedups.ratios(found), tmp_path / "none.csv")
    assert [each["finding"] for each in listed] == ([said] if said else [])


def test_scaling_is_over_as_many_micro_steps_where_there_are_some(tmp_path):
    """Over the fastest of one device where no other has as many."""
    rows = [
        {"accumulation": "2", "value": "80"},
        {"accumulation": "16", "value": "130"},
        {"accumulation": "16", "value": "1000", "devices_per_node": "8"},
        {"accumulation": "1", "value": "1500", "devices_per_node": "8"},
    ]
    publication(tmp_path, text_of(*rows))
    (only,) = speedups.contradictions(rows_of.read_all(tmp_path), [], tmp_path / "none.csv")
    assert only["finding"] == "11.54 times one device, on 8 devices"
    assert only["rows"] == f"{tmp_path}/mine.csv:5"


def test_a_file_with_another_name_than_its_round_is_named(tmp_path):
    config = publication(tmp_path, text_of({}))
    config.rename(tmp_path / "my page.yaml")
    with pytest.raises(AnalysisError, match="my page.yaml: round: 'imported-mine' must be"):
        rows_of.read_all(tmp_path)


def test_a_page_depends_on_its_own_files(tmp_path):
    """Another publication that is broken, or has the same title, is not on it."""
    config = publication(tmp_path, text_of(LATENCY), more="publisher: Me\n")
    publication(tmp_path, text_of({}, separator=";"), "broken", "publisher: Me\n")
    (tmp_path / "no.yaml").write_text("round: [\n")
    rows = [{"value": "100"}, {"value": "990", "devices_per_node": "8"}]
    publication(tmp_path, text_of(*rows), "other", "publisher: Me\n")
    assert "times one device" not in page(config)
    with pytest.raises((AnalysisError, ConfigError), match="semicolons|not YAML"):
        rows_of.read_all(tmp_path)
    assert "9.90 times one device" in page(tmp_path / "other.yaml")


def test_versions_and_what_was_inferred_stand_on_the_page(tmp_path):
    row = {**LATENCY, "hardware": "A100-40GB", "inferred": "hardware data"}
    versions = "versions: {mine: 2.0.1 <b>}\n"
    made = page(publication(tmp_path, text_of(row), more=versions))
    assert "mine 2.0.1 &lt;b&gt;." in made
    assert "<code>hardware</code> of 1 numbers" in made and "<code>data</code> of 1" in made
    (value,) = read_table(tmp_path / "imported-mine/values.tsv")
    assert value["inferred"] == "hardware data"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("versions: {mien: 1.6.0}\n", "versions.mien: is no implementation in the files; did you"),
        (
            "versions: {mine: 2.2}\n",
            "versions.mine: 2.2 must be of the type string: YAML reads 2.2",
        ),
        ("versions: {mine: 2021-01-20}\n", "a word needs quotes here, '2021-01-20'"),
        ("hardware: no\n", "hardware: no must be of the type string"),
    ],
)
def test_a_wrong_version_is_told(more, said, tmp_path, capsys):
    assert said in refused(capsys, publication(tmp_path, text_of({}), more=more))


# ---- what is published


def test_what_the_publications_do_not_print_is_marked():
    for name in ("nvidia-mxnet-resnet50", "nvidia-electra"):
        with open(PUBLISHED / f"{name}.csv") as stream:
            for row in csv.DictReader(stream):
                inferred = row["inferred"].split()
                assert ("dali" in inferred) == (row["dali"] == "yes")
                assert ("xla" in inferred) == (row["xla"] == "yes")
                own = row["table"].startswith("L23" if name == "nvidia-electra" else "L43")
                assert ("gpu" in inferred) == own


def test_versions_ratios_and_what_is_missing_are_as_printed(tmp_path):
    versions = {path.stem: configs.load(path).versions for path in sorted(PUBLISHED.glob("*.yaml"))}
    assert versions["dlperf-v1"]["OneFlow"] == "0.2.0"
    assert versions["dlperf-v1-insightface"] == {
        "OneFlow": "0.3.4",
        "MXNet": "deepinsight/insightface, 2021-01-20 update",
    }
    assert versions["dlperf-v1-summary"]["HugeCTR"] == "2.2"
    rows = rows_of.read_all(PUBLISHED)
    printed = [each for each in speedups.ratios(rows) if each.what.startswith("percent of HugeCTR")]
    front = [each.published for each in printed if each.row["report"] == "README.md"]
    assert front == [35, 25, 17, 11]
    assert len(printed) == 18 and {each.status for each in printed} == {"reproduced"}
    for name in ("dlperf-v1-summary", "paddlepaddle-resnet50"):
        out = tmp_path / f"imported-{name}"
        assert main(["import", "--config", str(PUBLISHED / f"{name}.yaml"), "--out", str(out)]) == 0
    records = "\n".join(path.read_text() for path in tmp_path.glob("imported-*/runs/**/rep1.json"))
    assert '"value": 28594.0' in records and '"hardware": "V100-32GB"' in records
    missing = next(
        path.read_text()
        for path in tmp_path.glob("imported-dlperf-v1-summary/runs/**/rep1.json")
        if "pytorch/examples has no mixed precision" in path.read_text()
    )
    assert '"status": "unsupported"' in missing and '"value": null' in missing
