"""The tables of pages are what the committed runs say."""

from __future__ import annotations

from pathlib import Path

import make_results_table as tables
import pytest


@pytest.mark.parametrize(
    ("file", "renewed"),
    [
        (tables.README, tables.readme),
        (tables.PERFORMANCE, tables.performance),
        (tables.OVERLAP, tables.overlap),
        (tables.CODECS, tables.codecs),
        (tables.NODES, tables.nodes),
        (tables.MPI, tables.mpi),
        (tables.RUNS, tables.runs),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_committed_tables_are_current(file: Path, renewed: tables.Renewed) -> None:
    text = file.read_text(encoding="utf-8")
    assert text == renewed(text), "run: python tools/make_results_table.py"


def test_machines_are_named_by_what_is_known_of_them() -> None:
    gpus = {"gpus": ["NVIDIA H200"] * 2, "driver": "580"}
    assert tables.machine_name(gpus) == "2 x NVIDIA H200"
    host = {"cpu": "Xeon", "cores": 16, "gpus": [{"name": "NVIDIA H200"}]}
    assert tables.machine_name(host) == "1 x NVIDIA H200, Xeon, 16 cores"
    assert tables.machine_name(host | {"gpus": []}) == "Xeon, 16 cores"


def test_errors_have_two_digits() -> None:
    values = (0.0, 0.00547, 0.625, 10.0, 0.0551, 8.2e-7)
    assert [tables.number(value) for value in values] == [
        *("0", "5.5e-3", "0.62", "10", "5.5e-2", "8.2e-7")
    ]
