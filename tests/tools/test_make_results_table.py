"""README's results are what the committed result files say."""

from __future__ import annotations

import json

import make_results_table


def test_the_committed_table_is_current() -> None:
    text = make_results_table.README.read_text(encoding="utf-8")
    assert text == make_results_table.readme(text), "run: python tools/make_results_table.py"
    page = make_results_table.PERFORMANCE.read_text(encoding="utf-8")
    assert page == make_results_table.performance(page), "run: python tools/make_results_table.py"


def test_the_index_names_files_that_are_there() -> None:
    folder = make_results_table.RESULTS
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert index
    for what, file in index.items():
        assert (folder / file).is_file(), what


def test_no_committed_row_has_wrong_elements() -> None:
    for file in make_results_table.RESULTS.glob("*-host.json"):
        rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
        assert rows
        assert all(row["wrong"] == 0 for row in rows), file
