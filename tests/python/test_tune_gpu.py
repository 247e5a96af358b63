"""`sennit tune --executor cuda`: profiles from rows that were measured."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from sennit import _core
from sennit.cli import compare_program, profile_rows, tune_gpu
from sennit.cli.output import Output

Command = Callable[..., "subprocess.CompletedProcess[str]"]
RESULTS = Path(__file__).resolve().parents[2] / "bench/results/current"


@pytest.fixture(scope="module")
def base() -> str:
    """The built-in profile of the H200."""
    profiles = json.loads(_core.tool_gpu_profiles("{}"))["profiles"]
    return str(next(profile["text"] for profile in profiles if profile["name"] == "h200"))


def packets(text: str, collective: str, ranks: int) -> set[tuple[str, str]]:
    lines = [line.split() for line in text.splitlines() if line.startswith("packets ")]
    return {(words[5], words[9]) for words in lines if words[1:4:2] == [collective, str(ranks)]}


def row(nbytes: int, **us: float) -> dict[str, Any]:
    ways = {"sennit " + way.replace("_", " "): {"p50": time} for way, time in us.items()}
    return {"collective": "all_gather", "ranks": 2, "bytes": nbytes, "mode": "graph"} | {
        "engines": ways
    }


def test_rows_give_the_profile_that_was_made_of_them_by_hand(base: str) -> None:
    rows = json.loads((RESULTS / "h200x4-slots.json").read_text())["rows"]
    text, notes = profile_rows.derive(base, rows)
    assert "packets of all_reduce on 4 ranks" in notes
    for collective in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        assert packets(base, collective, 4) <= packets(text, collective, 4)
    json.loads(_core.tool_gpu_profiles(json.dumps({"text": text})))


def test_a_way_begins_between_the_sizes_around_its_first_win(base: str) -> None:
    rows = [
        row(1 << 20, ll128=1.0, slots=2.0, put=3.0, stream=9.0),
        row(1 << 22, ll128=3.0, slots=2.0, put=2.5, stream=9.0),
        row(1 << 24, ll128=9.0, slots=8.0, put=7.0, stream=7.5),
        row(1 << 26, ll128=9.0, slots=8.0, put=7.0, stream=6.0),
    ]
    text, _ = profile_rows.derive(base, rows)
    assert ("2M", "slots") in packets(text, "all_gather", 2)
    assert "size one_sided 8M" in text.splitlines()
    assert "size copy_engines 32M" in text.splitlines()
    # Rows below what was measured, and those of other ranks, stay.
    assert packets(base, "all_gather", 4) == packets(text, "all_gather", 4)
    # Of calls that are waited for one by one, the host has most of the time.
    waited_for = [one | {"mode": "call"} for one in rows]
    assert profile_rows.derive(base, waited_for) == (base, [])


def test_what_never_wins_is_never_taken(base: str) -> None:
    rows = [row(1 << shift, ll128=1.0, slots=2.0, stream=3.0) for shift in (20, 24, 28)]
    text, _ = profile_rows.derive(base, rows)
    assert "size copy_engines never" in text.splitlines()
    checked = json.loads(_core.tool_gpu_profiles(json.dumps({"text": text})))["profiles"][0]
    assert checked["text"] == text


def test_the_command_writes_a_profile_of_result_files(
    sennit_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "h100.profile"
    rows = RESULTS / "h100x2-player.json"
    answer = sennit_command(
        *("tune", "--executor", "cuda", "--rows", str(rows), "--out", str(file), "--json", "-")
    )
    assert answer.returncode == 0, answer.stderr
    written = json.loads(answer.stdout)
    assert written["name"] == "h100"
    assert written["gpus"] == ["H100"]
    assert written["base"] == "h200"
    assert file.read_text() == written["text"]
    assert "h100x2-player.json" in file.read_text()


def time_of_copies(nbytes: int, none: float, half: float) -> dict[str, Any]:
    """What sennit-compare prints of an all_reduce by shared_buffer, of 4 ranks on a GPU."""
    ways = {"sennit": none, "staged": 99.0, "sennit share 0": none, "sennit share 50": half}
    row = {"collective": "all_reduce", "ranks": 4, "bytes": nbytes, "mode": "graph", "wrong": 0}
    row |= {
        "samples": 1,
        "calls_per_sample": 1,
        "sm_count": 0,
        "gpus": 1,
        "mps": False,
        "ratio": 2.0,
    }
    return row | {"time_us": {way: {"min": us, "p50": us, "p95": us} for way, us in ways.items()}}


def test_more_ranks_than_gpus_measure_the_copies_of_a_shared_buffer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def measured_rows(_program: Path, arguments: list[str]) -> list[dict[str, Any]]:
        asked.extend(arguments)
        return [time_of_copies(4096, 9.0, 5.0), time_of_copies(65536, 9.0, 20.0)]

    monkeypatch.setattr(tune_gpu, "_gpus_here", lambda: (["NVIDIA H100"], 1))
    monkeypatch.setattr(compare_program, "find_program", lambda: Path("sennit-compare"))
    monkeypatch.setattr(compare_program, "measured_rows", measured_rows)
    file = tmp_path / "h100.profile"
    assert tune_gpu.command(Output(None), (), 4, (), file) == 0
    assert asked[asked.index("--algorithm") + 1] == "shared_buffer"
    lines = file.read_text().splitlines()
    assert "host_share all_reduce up_to_ranks 4 from 4K percent 50" in lines
    assert "host_share all_reduce up_to_ranks 4 from 16K percent 0" in lines
    with pytest.raises(click.UsageError, match="share GPUs"):
        tune_gpu.command(Output(None), ("all_gather",), 4, (), file)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--rows", str(RESULTS / "host-2-cores.json")), "has no rows of GPUs"),
        (("--rows", __file__), "is no result file"),
        (("--check", __file__), "--check is for tables of host ranks"),
        (("--ranks", "2,4"), "is one number"),
        (("barrier",), "not barrier"),
        ((), "--rows"),
    ],
)
def test_what_makes_no_profile_is_refused(
    sennit_command: Command, tmp_path: Path, arguments: tuple[str, ...], what: str
) -> None:
    file = tmp_path / "x.profile"
    answer = sennit_command("tune", "--executor", "cuda", *arguments, "--out", str(file))
    assert answer.returncode not in (0, 1)
    assert what in answer.stderr
    assert not file.exists()
