"""`sennit bench --against mpi`: what it finds, what it reports, and how it adds up."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sennit import cli
from sennit.cli import bench, rivals
from sennit.cli.against_table import is_off
from sennit.cli.bench_against import Measured, merged
from sennit.cli.failure import Failure
from sennit.cli.rivals import mpi
from sennit.cli.rivals.gloo import GlooRival
from sennit.cli.rivals.rows import count_of

Command = Callable[..., "subprocess.CompletedProcess[str]"]

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("-n", "3", "-w", "1")
# With both MPIs the same functions run; each collective starts two jobs.
COMPARED = {
    "mpich": ("reduce", "broadcast", "reduce_scatter", "all_to_all", "gather", "send_recv"),
    "openmpi": ("all_reduce", "all_gather", "scatter", "send_recv", "barrier"),
}


def prefix_of(name: str) -> Path:
    variable = {"mpich": "SENNIT_MPICH_PREFIX", "openmpi": "SENNIT_OPENMPI_PREFIX"}[name]
    prefix = Path(os.environ.get(variable) or ROOT / ".rivals" / name)
    if not (prefix / "bin" / "mpiexec").exists():
        pytest.skip(f"mpi: needs {name} (make rivals)")
    return prefix


def wrong_of(row: dict[str, Any]) -> tuple[int | None, int | None]:
    """What a row and its rival have that are right; of a barrier there is nothing to check."""
    return (None, None) if row["collective"] == "barrier" else (0, 0)


def against(command: Command, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    answer = command("bench", *arguments, *QUICK, "--json", "-", **environment)
    assert answer.returncode == 0, answer.stderr
    rows: list[dict[str, Any]] = json.loads(answer.stdout)["rows"]
    return rows


@pytest.mark.parametrize("name", mpi.NAMES)
def test_every_collective_is_compared_with_one_mpi_and_both_are_right(
    sennit_command: Command, name: str
) -> None:
    prefix = {f"SENNIT_{name.upper()}_PREFIX": str(prefix_of(name))}
    collectives = list(COMPARED[name])
    sizes = ("-b", "12", "-e", "3000", "-f", "250")
    rows = against(
        sennit_command, *collectives, "--against", name, "--ranks", "3", *sizes, **prefix
    )
    assert list(dict.fromkeys(row["collective"] for row in rows)) == collectives
    for row in rows:
        (rival,) = row["rivals"]
        assert rival["name"] == row["rival"]["name"] == name
        assert rival["version"]
        assert (row["wrong"], rival["wrong"]) == wrong_of(row)
        assert rival["ours_us"] == row["time_us"]["p50"]
        assert row["ratio"] == pytest.approx(rival["p50_us"] / row["time_us"]["p50"])
        if row["collective"] == "barrier":
            continue
        assert row["warm_ratio"] == pytest.approx(
            rival["warm"]["p50_us"] / rival["warm"]["ours_us"]
        )
        has_program = row["collective"] not in ("send_recv", "barrier")
        assert (rival["alone_us"] is not None) == has_program
        assert row["root"] == "rotate"


@pytest.mark.parametrize("name", mpi.NAMES)
def test_other_types_and_calls_in_place_are_compared(sennit_command: Command, name: str) -> None:
    prefix = {f"SENNIT_{name.upper()}_PREFIX": str(prefix_of(name))}
    collectives = ("all_reduce", "reduce", "all_gather", "all_to_all", "gather", "scatter")
    options = ("--ranks", "2", "-b", "4K", "-e", "4K", "-d", "int16", "-o", "max", "--in-place")
    rows = against(sennit_command, *collectives, "--against", name, *options, **prefix)
    assert [row["collective"] for row in rows] == list(collectives)
    for row in rows:
        assert (row["wrong"], row["rivals"][0]["wrong"]) == wrong_of(row)
        assert (row["in_place"], row["dtype"], row["op"]) == (True, "int16", "max")


@pytest.mark.parametrize("name", mpi.NAMES)
def test_what_mpi_lacks_is_named(sennit_command: Command, name: str) -> None:
    prefix = {f"SENNIT_{name.upper()}_PREFIX": str(prefix_of(name))}
    answer = sennit_command(
        "bench", "--against", name, "--ranks", "2", "-d", "bfloat16", *QUICK, **prefix
    )
    assert answer.returncode == 4, answer.stderr
    assert "MPI has no type bfloat16" in answer.stderr


@pytest.mark.parametrize(
    ("programs", "words"),
    [
        ({}, "there is no bin/mpiexec"),
        ({"mpiexec": "exit 0"}, "mpicc cannot be run"),
        ({"mpiexec": "exit 0", "mpicc": "echo no compiler here >&2; exit 1"}, "no compiler here"),
        ({"mpiexec": "exit 0", "mpicc": "exit 0"}, None),
    ],
)
def test_an_mpi_that_is_not_whole_is_told(
    sennit_command: Command, tmp_path: Path, programs: dict[str, str], words: str | None
) -> None:
    (tmp_path / "bin").mkdir()
    for name, script in programs.items():
        file = tmp_path / "bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    answer = sennit_command(
        "bench", "--against", "mpich", "-e", "8", *QUICK, SENNIT_MPICH_PREFIX=str(tmp_path)
    )
    assert "Traceback" not in answer.stderr
    if words is None:
        assert answer.returncode == 3
        assert "started no ranks" in answer.stderr
    else:
        assert answer.returncode == 4
        assert words in answer.stderr
        assert "Next: " in answer.stderr


def test_no_mpi_at_all_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "_usual_places", lambda _: [])
    with pytest.raises(Failure, match="make rivals") as failure:
        mpi.find(mpi.NAMES)
    assert failure.value.exit_code == 4


def test_gloo_is_compared_where_pytorch_is(sennit_command: Command) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch: needs PyTorch")
    collectives = ("all_reduce", "reduce", "broadcast", "all_gather", "all_to_all", "barrier")
    options = ("--ranks", "2", "-b", "1K", "-e", "1K", "--against", "gloo")
    rows = against(sennit_command, *collectives, *options)
    assert [row["collective"] for row in rows] == list(collectives)
    for row in rows:
        (gloo,) = row["rivals"]
        assert gloo["name"] == "gloo"
        assert gloo["p50_us"] > 0
        assert (row["wrong"], gloo["wrong"]) == wrong_of(row)


def test_gloo_without_pytorch_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Failure, match="pip install torch") as failure:
        GlooRival(2)
    assert failure.value.exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["send_recv", "--pair", "0:1"], "no form of --pair"),
        (["reduce_scatter", "--in-place"], "reduce_scatter in place"),
    ],
)
def test_what_has_no_counterpart_is_bad_usage(
    sennit_command: Command, arguments: list[str], words: str
) -> None:
    answer = sennit_command("bench", *arguments, "--ranks", "2", "--against", "mpi")
    assert answer.returncode == 2
    assert words in answer.stderr


def row_of(ours: float, rival: float | None, size: int = 8) -> dict[str, Any]:
    """A row as a rank program with a rival prints it."""

    def times(p50: float) -> dict[str, float]:
        return {"min": p50, "p50": p50, "p95": p50}

    skipped: dict[str, Any] = {"version": "1", "skipped": True}
    timed = rival and {
        "version": "Some  Version:  1",
        "skipped": False,
        "samples": 3,
        "calls_per_sample": 1,
        "time_us": times(rival),
        "warm_us": times(rival / 2),
        "wrong": 0,
    }
    return {
        "collective": "all_gather",
        "dtype": "float32",
        "op": "sum",
        "ranks": 2,
        "bytes": size,
        "time_us": times(ours),
        "warm_us": times(ours / 4),
        "wrong": 0,
        "rivals": [timed or skipped],
        "rival": None,
        "ratio": None,
    }


def test_the_best_rival_and_the_times_beside_it_stand_for_a_row() -> None:
    slow = Measured("slow", "", [row_of(2.0, 6.0), row_of(3.0, None, 64)], {})
    alone = {("all_gather", "float32", "sum", 1): 2.5}
    fast = Measured("fast", "", [row_of(1.5, 3.0), row_of(4.0, 2.0, 64)], alone)
    first, second = merged([slow, fast])
    assert first["rival"] == {"name": "fast", "p50_us": 3.0}
    assert (first["ratio"], first["time_us"]["p50"], first["warm_ratio"]) == (2.0, 1.5, 4.0)
    assert [rival["ratio"] for rival in first["rivals"]] == [3.0, 2.0]
    assert first["rivals"][1]["version"] == "Some 1"
    assert first["rivals"][1]["alone_ratio"] == 1.2
    assert [is_off(rival) for rival in first["rivals"]] == [False, True]
    assert second["rivals"][0]["skipped"]
    assert (second["ratio"], second["rival"]["name"]) == (0.5, "fast")
    assert count_of(second) == 8


def test_a_row_without_any_rival_has_no_ratio() -> None:
    (row,) = merged([Measured("slow", "", [row_of(2.0, None)], {})])
    assert (row["rival"], row["ratio"], row["warm_ratio"]) == (None, None, None)
    assert row["time_us"]["p50"] == 2.0


class FakeRival:
    """Of which nothing runs."""

    settings = ""
    library = Path("none")
    one_buffer = frozenset[str]()

    def __init__(self, name: str) -> None:
        self.name = name

    def starts(self) -> list[Any]:
        return []

    def time_alone(self, _orders: Any, _rows: Any) -> dict[Any, float]:
        return {}


@pytest.mark.parametrize("rivals_done", [0, 1])
def test_rows_before_an_interrupt_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rivals_done: int
) -> None:
    calls = iter(range(2))

    def measure(_job: Any, _starts: Any, _table: Any, _out: Any, rows: Any, _ranks: int) -> None:
        rows.append(row_of(2.0, 6.0))
        if next(calls) == rivals_done:
            raise KeyboardInterrupt
        rows.append(row_of(3.0, 6.0, 64))

    fakes = [FakeRival("first"), FakeRival("second")]
    monkeypatch.setattr(bench, "_measure", measure)
    monkeypatch.setattr(rivals, "prepare", lambda *_: fakes)
    file = tmp_path / "rows.json"
    words = ["bench", "all_gather", "--ranks", "2", "--against", "mpich", "--json", str(file)]
    assert cli.run(words) == 130
    rows = json.loads(file.read_text())["rows"]
    assert [row["bytes"] for row in rows] == ([8, 64] if rivals_done else [8])
    assert {row["rival"]["name"] for row in rows} == {"first"}
