"""The result file of GPU ranks says what the tests and the litmus programs have said."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = spec_from_file_location("collect", ROOT / "bench/gpu/collect.py")
assert SPEC is not None
assert SPEC.loader is not None
collect = module_from_spec(SPEC)
SPEC.loader.exec_module(collect)

# Ranks that are processes say so of their own test, in between.
LOG = """[==========] Running 4 tests from 2 test suites.
[ RUN      ] Device.Sums
[       OK ] Device.Sums (12 ms)
[ RUN      ] Works/Deaths.AreTold/Small
rank 1: expected 1
[  FAILED  ] Works/Deaths.AreTold/Small, where GetParam() = 16-byte object (30 ms)

[==========] 1 test from 1 test suite ran. (30 ms total)
[  PASSED  ] 0 tests.
[  FAILED  ] Works/Deaths.AreTold/Small, where GetParam() = 16-byte object (40 ms)
[ RUN      ] Device.Pairs
gpu2: needs two GPUs
[  SKIPPED ] Device.Pairs (0 ms)
[       OK ] Device.Moves/3 (1 ms)
"""
END = """[----------] Global test environment tear-down
[==========] 4 tests from 2 test suites ran. (60 ms total)
[  PASSED  ] 2 tests.
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Works/Deaths.AreTold/Small, where GetParam() = 16-byte object
"""


@pytest.mark.parametrize(("log", "ended"), [(LOG, False), (LOG + END, True)])
def test_each_test_counts_once(log: str, ended: bool) -> None:
    assert collect.test_counts(log) == {
        "passed": 2,
        "failed": 1,
        "skipped": 1,
        "names_of_failed": ["Works/Deaths.AreTold/Small"],
        "ended": ended,
    }


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str) -> dict[str, Any]:
    out = folder / "result.json"
    monkeypatch.setattr(sys, "argv", ["collect.py", "--out", str(out), *arguments])
    collect.main()
    document: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return document


def test_parts_that_were_not_run_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tests.log").write_text(LOG, encoding="utf-8")
    missing = (str(tmp_path / "graph.jsonl"), "--litmus", str(tmp_path / "litmus.log"))
    document = run(monkeypatch, tmp_path, *missing, "--tests", str(tmp_path / "tests.log"))
    assert document["rows"] == []
    assert document["tests"]["failed"] == 1
    assert "litmus" not in document


def test_rows_have_their_sms_and_the_table_their_floors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = {"min": 2.0, "p50": 2.5, "p95": 3.0}
    row = {
        "collective": "all_reduce",
        "ranks": 2,
        "bytes": 780_000,
        "mode": "graph",
        "calls_per_sample": 20,
        "samples": 21,
        "wrong": 0,
        "ratio": 1.5,
        "sm_count": 24,
        "time_us": {"sennit": times, "nccl windows": times},
    }
    (tmp_path / "graph.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    (tmp_path / "litmus.log").write_text("message passing: held\n", encoding="utf-8")
    litmus = ("--litmus", str(tmp_path / "litmus.log"))
    document = run(monkeypatch, tmp_path, str(tmp_path / "graph.jsonl"), *litmus)
    assert document["program"] == "bench/gpu/run"
    assert document["litmus"] == ["message passing: held"]
    assert document["rows"][0]["sm_count"] == 24
    line = capsys.readouterr().out.splitlines()[1]
    assert line.split() == ["all_reduce", "780000", "graph", "2.5", "2.0", "24", "2.5", "1.50"]
