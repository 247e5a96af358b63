"""`sennit bench` end to end, with sizes small enough for a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sennit.cli import names
from sennit.cli.sizes import human, sweep

Command = Callable[..., "subprocess.CompletedProcess[str]"]

DOCUMENT_KEYS = {"schema", "machine", "version", "commit", "date", "rows"}
MACHINE_KEYS = {"name", "fingerprint", "cpu", "cores", "gpus", "driver"}
ROW_TYPES: dict[str, type | tuple[type, ...]] = {
    "collective": str,
    "algorithm": str,
    "executor": str,
    "ranks": int,
    "dtype": str,
    "op": (str, type(None)),
    "bytes": int,
    "mode": str,
    "in_place": bool,
    "registered": bool,
    "root": (int, str, type(None)),
    "protocol": (str, type(None)),
    "paths": (str, list, type(None)),
    "tile_bytes": int,
    "sm_count": int,
    "samples": int,
    "calls_per_sample": int,
    "time_us": dict,
    "warm_us": type(None),
    "rotate_bytes": int,
    "algbw_GBps": (int, float),
    "busbw_GBps": (int, float),
    "wrong": (int, type(None)),
    "predicted_us": type(None),
    "rivals": list,
    "rival": type(None),
    "ratio": type(None),
}
QUICK = ("-n", "3", "-w", "1", "--no-pin")


def bench(command: Command, *arguments: str, **environment: str) -> dict[str, Any]:
    answer = command("bench", *arguments, *QUICK, "--json", "-", **environment)
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


@pytest.mark.parametrize("collective", names.COLLECTIVES)
def test_every_collective_is_measured_and_right(sennit_command: Command, collective: str) -> None:
    document = bench(sennit_command, collective, "--ranks", "3", "-b", "8", "-e", "4K", "-f", "8")
    assert set(document) == DOCUMENT_KEYS
    assert set(document["machine"]) == MACHINE_KEYS
    assert document["schema"] == 1
    rows = document["rows"]
    assert rows
    for row in rows:
        assert set(row) == set(ROW_TYPES)
        for key, kind in ROW_TYPES.items():
            assert isinstance(row[key], kind), key
        assert (row["collective"], row["ranks"], row["executor"]) == (collective, 3, "host")
        assert row["samples"] == 3
        assert 0 < row["time_us"]["min"] <= row["time_us"]["p50"] <= row["time_us"]["p95"]
        assert not row["wrong"]
    if collective == "all_gather":
        assert [row["bytes"] for row in rows] == [12, 72, 516, 4104]


def test_bus_bandwidth_has_the_factor_of_the_collective(sennit_command: Command) -> None:
    for collective, factor in (("all_reduce", 4 / 3), ("all_gather", 2 / 3), ("broadcast", 1.0)):
        (row,) = bench(sennit_command, collective, "--ranks", "3", "-b", "12K", "-e", "12K")["rows"]
        assert row["algbw_GBps"] == pytest.approx(
            row["bytes"] / row["time_us"]["p50"] / 1e3, rel=0.02
        )
        assert row["busbw_GBps"] == pytest.approx(factor * row["algbw_GBps"], rel=0.02)


def test_options_reach_the_rows(sennit_command: Command) -> None:
    arguments = ("reduce", "--ranks", "2", "-b", "64", "-e", "64", "-d", "double", "-o", "max")
    (row,) = bench(sennit_command, *arguments, "-r", "1", "--in-place")["rows"]
    assert (row["dtype"], row["op"], row["root"], row["in_place"]) == ("float64", "max", 1, True)


def test_all_types_and_operators_are_swept(sennit_command: Command) -> None:
    size = ("--ranks", "2", "-b", "1K", "-e", "1K")
    rows = bench(sennit_command, *size, "-d", "all", "-o", "sum")["rows"]
    assert [row["dtype"] for row in rows] == list(names.DTYPES)
    assert not any(row["wrong"] for row in rows)
    for dtype, operators in (("uint16", 11), ("bool", 10), ("float8_e4m3fn", 5), ("complex64", 3)):
        rows = bench(sennit_command, *size, "-d", dtype, "-o", "all")["rows"]
        assert len(rows) == operators
        assert not any(row["wrong"] for row in rows)


def test_a_pair_is_measured_both_ways(sennit_command: Command) -> None:
    arguments = ("send_recv", "--ranks", "3", "--pair", "0:2", "--bidirectional", "--window", "4")
    rows = bench(sennit_command, *arguments, "-b", "1K", "-e", "1K")["rows"]
    assert [row["wrong"] for row in rows] == [0]


def test_the_table_has_a_line_a_size(sennit_command: Command) -> None:
    answer = sennit_command("bench", "--ranks", "2", "-e", "32", *QUICK)
    assert answer.returncode == 0, answer.stderr
    title, columns, units, *lines = answer.stdout.splitlines()
    assert title.startswith("all_reduce, 2 ranks")
    assert columns.split() == (
        ["bytes", "count", "type", "op", "root", "min", "p50", "p95", "algbw", "busbw", "#wrong"]
    )
    assert units.split() == ["B", "elements", "us", "us", "us", "GB/s", "GB/s"]
    assert [line.split()[:4] for line in lines] == [
        ["8", "2", "float32", "sum"],
        ["16", "4", "float32", "sum"],
        ["32", "8", "float32", "sum"],
    ]


def test_the_plot_is_a_picture(sennit_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    answer = sennit_command("bench", "--ranks", "2", "-e", "256", *QUICK, "--plot", str(file))
    assert answer.returncode == 0, answer.stderr
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_rank_that_is_killed_ends_the_benchmark_with_3() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sennit", "bench", "--ranks", "3", "-n", "1000000", "--no-pin"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 30
    while len(children.read_text().split()) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    ranks = [int(pid) for pid in children.read_text().split()]
    time.sleep(0.5)  # they join within milliseconds, then call for many minutes
    os.kill(ranks[1], signal.SIGKILL)
    start = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 3
    assert time.monotonic() - start < 10
    assert "died" in errors
    assert "rank 1 (" in errors
    assert f"pid {ranks[1]}" in errors
    assert "Traceback" not in errors
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)


def test_an_unknown_algorithm_is_bad_usage(sennit_command: Command) -> None:
    answer = sennit_command("bench", "--ranks", "2", "-e", "8", *QUICK, "--algorithm", "telepathy")
    assert answer.returncode == 2
    assert "telepathy" in answer.stderr


@pytest.mark.parametrize(
    ("rank_variable", "job"),
    [
        ("RANK", {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29518"}),
        ("OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "bench test"}),
        ("PMI_RANK", {"PMI_SIZE": "2"}),  # hydra: this test is the launcher, as the parent of both
    ],
)
def test_bench_joins_the_ranks_of_a_launcher_and_rank_0_reports(
    rank_variable: str, job: dict[str, str]
) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "sennit", "bench", "-e", "16", *QUICK, "--json", "-"],
            env={**os.environ, **job, rank_variable: str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    reporting, silent = (process.communicate(timeout=60)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert [row["ranks"] for row in json.loads(reporting)["rows"]] == [2, 2]
    assert silent == ""


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        ((8, 64, 2, 4), [8, 16, 32, 64]),
        ((8, 40, 2, 4), [8, 16, 32, 40]),
        ((8, 32, 2, 12), [12, 24, 36]),
        ((0, 4, 2, 1), [0, 1, 2, 4]),
        ((5, 5, 2, 4), [8]),
    ],
)
def test_a_sweep_rounds_up_and_ends_at_its_end(
    arguments: tuple[int, int, int, int], sizes: list[int]
) -> None:
    assert sweep(*arguments) == sizes


def test_sizes_are_written_as_they_are_read() -> None:
    texts = {0: "0", 8: "8", 1024: "1K", 3 << 20: "3M", 1 << 30: "1G", 1025: "1025"}
    assert {size: human(size) for size in texts} == texts
