"""Tables read as the csv module reads them, line by line."""

import csv
import io

import pytest

from dlperf.analysis.schema.files import read_table, write_table

TEXTS = {
    "plain": "case\treason\na\tb\n",
    "quoted": 'case\treason\na\tb\n"c\td"\t"e ""f"""\ng\th"i\n',
    "a quoted header": '"case"\treason\na\tb\n',
    "empty lines": "case\treason\n\na\tb\n\n",
    "short and long lines": "case\treason\na\nb\tc\td\n",
    "ends of lines": "case\treason\r\na\tb\r\nc\td",
    "a header alone": "case\treason\n",
    "nothing": "",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_table_is_read_as_the_csv_module_does(tmp_path, text):
    path = tmp_path / "a.tsv"
    path.write_bytes(text.encode())
    rows = csv.DictReader(io.StringIO(text, newline=""), dialect="excel-tab")
    wanted = [{name: row[name] for name in row if name} for row in rows]
    assert read_table(path) == wanted
    if wanted:
        assert read_table(path, ["reason"]) == [{"reason": row["reason"]} for row in wanted]


def test_what_is_written_is_read_again(tmp_path):
    row = {"case": 'says "no"', "median": 0.1, "rank": None, "reason": "a\tb\n c", "n_ok": 3}
    write_table(tmp_path / "a.tsv.gz", list(row), [row, row])
    assert read_table(tmp_path / "a.tsv.gz") == [{**row, "reason": "a b c"}] * 2
