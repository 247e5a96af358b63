"""Committed runs say where they are from, and have the form that tools write."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import result_files

if TYPE_CHECKING:
    from pathlib import Path

NAMES = result_files.names()
ROW = {
    "collective": "all_reduce",
    "ranks": 2,
    "bytes": 1024,
    "time_us": {"min": 1.0, "p50": 2.00000004, "p95": 3.0},
    "algbw_GBps": 0.512,
    "busbw_GBps": 0.512,
    "floor_hops_us": 0.7,
    "floor_bytes_us": 0.002,
    "engines": {"sennit put": {"min": 3.0, "p50": 123.4567891, "p95": 5.0}},
    "ratio": None,
}
WHERE = {"machine": {"name": "vm"}, "version": "0.1.0", "commit": "f00", "date": "2026-11-25"}


def test_there_are_runs() -> None:
    assert "host-2-cores" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_run_says_where_it_is_from(name: str) -> None:
    document = result_files.read(name)
    assert [key for key in result_files.REQUIRED if not document.get(key)] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_committed_run_has_the_form_that_tools_write(name: str, tmp_path: Path) -> None:
    result_files.write(tmp_path / "again.json", result_files.read(name))
    again = (tmp_path / "again.json").read_text(encoding="utf-8")
    committed = (result_files.RESULTS / f"{name}.json").read_text(encoding="utf-8")
    assert committed == again, "run: python tools/result_files.py FILE.json NAME"


@pytest.mark.parametrize("name", NAMES)
def test_no_committed_row_has_wrong_elements(name: str) -> None:
    assert [row for row in result_files.read(name).get("rows", []) if row.get("wrong")] == []


def test_rows_keep_times_and_lose_what_follows_from_them() -> None:
    slim = result_files.slim({"rows": [ROW], "printed": ["a log"]})
    assert slim == {
        "rows": [
            {
                "collective": "all_reduce",
                "ranks": 2,
                "bytes": 1024,
                "time_us": {"min": 1.0, "p50": 2.0, "p95": 3.0},
                "engines": {"sennit put": {"p50": 123.4568}},
                "ratio": None,
            }
        ]
    }


def test_times_that_a_check_has_judged_are_left_out() -> None:
    assert result_files.slim({"rows": [ROW], "choices": []}) == {"choices": []}


def test_a_row_is_a_line() -> None:
    document: dict[str, Any] = {"schema": 1, "empty": [], "rows": [ROW, ROW]}
    text = result_files.text(document)
    assert json.loads(text) == document
    row = json.dumps(ROW, separators=(",", ":"))
    lines = [
        "{",
        ' "schema": 1,',
        ' "empty": [],',
        ' "rows": [',
        f"  {row},",
        f"  {row}",
        " ]",
        "}",
    ]
    assert text.splitlines() == lines


def test_a_long_row_is_several_lines() -> None:
    row = {"short": [1, 2], "output": "x" * result_files.COLUMNS}
    lines = result_files.text({"rows": [row]}).splitlines()
    assert lines[:4] == ["{", ' "rows": [', "  {", '   "short": [1,2],']


def take_in(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> dict[str, Any]:
    monkeypatch.setattr(result_files, "RESULTS", folder)
    monkeypatch.setattr(sys, "argv", ["result_files.py", *arguments])
    result_files.main()
    return result_files.read("taken")


def test_a_file_is_taken_in_under_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "out" / "bench.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"schema": 1, **WHERE, "rows": [ROW]}), encoding="utf-8")
    command = ("--program", "sennit bench all_reduce")
    document = take_in(monkeypatch, tmp_path, str(file), "taken", *command)
    assert document["program"] == "sennit bench all_reduce"
    assert document["machine"] == {"name": "vm"}
    assert "algbw_GBps" not in document["rows"][0]


@pytest.mark.parametrize("missing", ["program", "machine", "commit"])
def test_a_file_that_does_not_say_where_it_is_from_is_refused(
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = {"schema": 1, "program": "bench/gpu/run", **WHERE}
    del document[missing]
    (tmp_path / "a.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(SystemExit):
        take_in(monkeypatch, tmp_path, str(tmp_path / "a.json"), "taken")
    assert f"does not say its {missing}" in capsys.readouterr().err
    assert not (tmp_path / "taken.json").exists()
