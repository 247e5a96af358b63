"""`sennit bench` end to end, with sizes small enough for a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sennit.cli import names
from sennit.cli import ranks as ranks_module
from sennit.cli.failure import Failure
from sennit.cli.ranks import Ranks
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
    title, columns, units, way, *lines = answer.stdout.splitlines()
    assert title.startswith("all_reduce, 2 ranks")
    assert columns.split() == (
        ["bytes", "count", "type", "op", "root", "min", "p50", "p95", "algbw", "busbw", "#wrong"]
    )
    assert units.split() == ["B", "elements", "us", "us", "us", "GB/s", "GB/s"]
    assert way == "# recursive_doubling by slots over shm"
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


def start_endless(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A benchmark that has its first row and measures the second for hours; its ranks."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sennit", "bench", "--ranks", "3", "-n", "1000000"),
            *("--no-pin", "-b", "8", "-e", "16"),
            *arguments,
        ],
        env={**os.environ, "TMPDIR": str(folder), "SENNIT_DEADLINE_S": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background has made them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 30
    while len(children.read_text().split()) < 3:
        assert time.monotonic() < until
        time.sleep(0.05)
    return process, [int(pid) for pid in children.read_text().split()]


@pytest.mark.parametrize(
    ("event", "code", "words"),
    [
        (lambda _, ranks: os.kill(ranks[1], signal.SIGKILL), 3, ("rank 1 (", "died")),
        (
            lambda _, ranks: os.kill(ranks[1], signal.SIGSTOP),
            3,
            ("rank 1 (", "stopped by a signal"),
        ),
        (lambda bench, _: bench.send_signal(signal.SIGINT), 130, ("interrupted",)),
        (lambda bench, _: bench.terminate(), 143, ("ended by SIGTERM",)),
    ],
    ids=["a rank is killed", "a rank is stopped", "Ctrl-C", "SIGTERM"],
)
def test_a_benchmark_that_ends_early_says_why_and_leaves_its_rows_alone(
    tmp_path: Path, event: Callable[[Any, list[int]], None], code: int, words: tuple[str, ...]
) -> None:
    file = tmp_path / "rows.json"
    folder = tmp_path / "temporary"
    folder.mkdir()
    process, ranks = start_endless(folder, "--json", str(file))
    time.sleep(0.5)  # they join within milliseconds, then call for many minutes
    event(process, ranks)
    start = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - start < 25
    assert process.returncode == code
    for word in words:
        assert word in errors
    assert "Traceback" not in errors
    assert "Next: abort()" not in errors  # is advice for programs
    assert list(folder.iterdir()) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks)
    document = json.loads(file.read_text())
    assert document["rows"] == []
    assert document["error"]["message"]


def fake_ranks(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, *orders: dict[str, Any]
) -> Ranks:
    """Ranks that are shell scripts; $PROGRAM is the real one."""
    monkeypatch.setenv("PROGRAM", str(ranks_module.rank_program()))
    program = folder / "rank"
    program.write_text(f"#!/bin/bash\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(ranks_module, "rank_program", lambda: program)
    return Ranks({"orders": list(orders)}, ranks_module.own_starts(2))


ORDER = {
    "collective": "all_reduce",
    "sizes": [8],
    "iterations": 3,
    "warmup": 1,
    "check": False,
    "max_seconds": 1.0,
    "pin": False,
    "tries": [{"algorithm": "", "protocol": "", "tile_bytes": 0}],
}


@pytest.mark.parametrize("event", ["kill -KILL $$", "kill -STOP $$", "kill -TERM $$", "exit 0"])
def test_a_rank_to_which_something_happens_before_it_joins_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, event: str
) -> None:
    monkeypatch.setenv("SENNIT_JOIN_TIMEOUT_S", "1")
    script = f"""if [ $SENNIT_RANK = 1 ]; then {event}; fi; exec "$PROGRAM" "$@" """
    begin = time.monotonic()
    with fake_ranks(monkeypatch, tmp_path, script, ORDER) as running:
        with pytest.raises(Failure) as caught:
            list(running.rows())
        assert time.monotonic() - begin < 1 + 5 + 2  # the join, what others may say, this machine
    assert caught.value.exit_code == 3
    assert "rank 1" in str(caught.value), caught.value


@pytest.mark.parametrize("event", ["kill -KILL $$", "kill -TERM $$", "exit 7"])
def test_a_rank_to_which_something_happens_after_its_calls_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, event: str
) -> None:
    script = f""""$PROGRAM" "$@" || exit 9; if [ $SENNIT_RANK = 1 ]; then {event}; fi"""
    with fake_ranks(monkeypatch, tmp_path, script, ORDER) as running:
        rows = running.rows()
        assert next(rows)["bytes"] == 8
        with pytest.raises(Failure, match=r"rank 1 of 2 .* left no message") as caught:
            list(rows)
    assert caught.value.exit_code == 3


def test_what_a_blamed_rank_says_itself_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = """
    if [ $SENNIT_RANK = 0 ]; then echo '{"error": {"message": "no memory"}}' >&2; exit 3; fi
    echo '{"error": {"message": "rank 0 died", "blamed_ranks": [0]}}' >&2; exit 3"""
    with (
        fake_ranks(monkeypatch, tmp_path, script) as running,
        pytest.raises(Failure, match="no memory"),
    ):
        list(running.rows())


@pytest.mark.parametrize(
    ("script", "words", "code"),
    [
        # As a rank ends whose algorithm is not proved.
        ("""echo '{"error": {"message": "it is wrong"}}' >&2; exit 1""", "it is wrong", 1),
        ("""echo '{"error": {"message": "no such"}}' >&2; exit 2""", "no such", 2),
        ("kill -ABRT $$", "was killed by SIGABRT and left no message", 3),
        ("exit 7", "ended with code 7 and left no message", 3),
    ],
)
def test_a_rank_that_fails_is_told_with_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str, code: int
) -> None:
    with fake_ranks(monkeypatch, tmp_path, script) as running:
        with pytest.raises(Failure, match=words) as caught:
            list(running.rows())
        assert caught.value.exit_code == code


def test_lines_that_are_no_rows_and_no_text_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = (
        """printf '\\xff from a launcher\\n{"cut": off\\n{"bytes": 8}\\n'; printf '\\xfe\\n' >&2"""
    )
    with fake_ranks(monkeypatch, tmp_path, script) as running:
        assert list(running.rows()) == [{"bytes": 8}]
    errors = capfd.readouterr().err
    assert "\\xff from a launcher" in errors
    assert '{"cut": off' in errors
    assert "\\xfe" in errors


def test_ranks_that_the_system_refuses_leave_nobody_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def refuse_the_second(*arguments: Any, **keywords: Any) -> subprocess.Popen[str]:
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(start(*arguments, **keywords))
        return started[0]

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "Popen", refuse_the_second)
    with pytest.raises(Failure, match=r"refuses to start rank 1 of 2: .*unavailable") as caught:
        fake_ranks(monkeypatch, tmp_path, "sleep 30")
    assert caught.value.exit_code == 3
    assert started[0].poll() is not None
    assert [file.name for file in tmp_path.iterdir()] == ["rank"]


def test_max_seconds_ends_all_rows_and_keeps_those_that_are_there(
    sennit_command: Command,
) -> None:
    arguments = ("--ranks", "2", "-n", "100000", "-e", "64K", "--no-pin", "--max-seconds", "1")
    start = time.monotonic()
    answer = sennit_command("bench", *arguments, "--json", "-")
    assert time.monotonic() - start < 30  # 14 rows, of which one alone would take longer
    assert answer.returncode == 0, answer.stderr
    rows = json.loads(answer.stdout)["rows"]
    assert 1 <= len(rows) < 14
    assert f"{len(rows)} of 14 rows in 1 s" in answer.stderr


def test_what_is_not_checked_is_not_right(sennit_command: Command) -> None:
    (row,) = bench(sennit_command, "--ranks", "2", "-b", "8", "-e", "8", "--no-check")["rows"]
    assert row["wrong"] is None
    answer = sennit_command("bench", "barrier", "--ranks", "2", *QUICK)
    assert answer.stdout.splitlines()[-1].split()[-1] == "N/A"


def test_one_rank_is_drawn_without_a_warning(sennit_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    answer = sennit_command("bench", "--ranks", "1", "-e", "64", *QUICK, "--plot", str(file))
    warnings = [line for line in answer.stderr.splitlines() if "this machine is busy" not in line]
    assert (answer.returncode, warnings) == (0, [])
    assert answer.stdout.startswith("all_reduce, 1 rank on this machine")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_an_unknown_algorithm_is_bad_usage(sennit_command: Command) -> None:
    answer = sennit_command("bench", "--ranks", "2", "-e", "8", *QUICK, "--algorithm", "telepathy")
    assert answer.returncode == 2
    assert "telepathy" in answer.stderr


def test_a_codec_has_an_error_on_random_data(sennit_command: Command) -> None:
    size = ("--ranks", "2", "-b", "64K", "-e", "64K")
    for collective in ("all_reduce", "all_to_all", "broadcast", "send_recv"):
        (row,) = bench(sennit_command, collective, *size, "--codec", "q8")["rows"]
        assert (row["codec"], row["wrong"]) == ("q8", None)
        assert 1e-3 < row["error"]["rms"] < 2e-2
        assert 1e-3 < row["error"]["max"] < 2e-2
    (row,) = bench(sennit_command, *size, "--codec", "none")["rows"]
    assert row["error"]["rms"] < 1e-6
    answer = sennit_command("bench", *size, *QUICK, "--codec", "q8")
    assert answer.returncode == 0, answer.stderr
    title, columns, *_ = answer.stdout.splitlines()
    assert "codec q8, random data" in title
    assert columns.split()[-1] == "error"


def test_an_unknown_codec_is_bad_usage(sennit_command: Command) -> None:
    answer = sennit_command("bench", "--ranks", "2", *QUICK, "--codec", "q9")
    assert answer.returncode == 2
    assert "there is no codec 'q9' for --codec; there are: zfp:4" in answer.stderr


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
