"""`sennit tune`, the table that it writes, and who takes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import result_files
from sennit import cli
from sennit.cli import ranks, tune_work

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one cheap collective; only the form of its figures is tested."""
    import os
    import sys

    file = tmp_path_factory.mktemp("tuning") / "here.tuning"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SENNIT_")}
    answer = subprocess.run(
        [sys.executable, "-m", "sennit", "tune", "scatter", "--ranks", "2", "--out", str(file)],
        env={**clean, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return file


def test_a_table_has_every_way_of_every_size(table: Path) -> None:
    lines = table.read_text().splitlines()
    assert lines[0] == "tuning 1"
    times = [line.split() for line in lines if line.startswith("time scatter ranks 2")]
    # Sizes are those of one rank's part.
    assert {int(words[5]) for words in times} >= {128, 8 << 20}
    ways = {(words[7], words[9]) for words in times}
    assert ways >= {("direct", "slots"), ("binomial", "slots")}


def test_what_was_timed_before_a_rank_failed_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "rank"
    program.write_text(
        """#!/bin/bash
        if [ $SENNIT_RANK = 1 ]; then exec sleep 1; fi
        echo '{"bytes": 512, "try": 0, "time_us": {"p50": 1.5}}'
        echo '{"error": {"message": "the deadline of rank 1 has passed"}}' >&2; exit 3"""
    )
    program.chmod(0o755)
    monkeypatch.setattr(ranks, "rank_program", lambda: program)
    table = tmp_path / "here.tuning"
    arguments = ["tune", "scatter", "--ranks", "2", "--out", str(table)]
    assert cli.run(arguments) == 3
    said = capsys.readouterr().err
    assert "scatter on 2 ranks ended early: the deadline of rank 1 has passed" in said
    assert "time scatter ranks 2 bytes 256 algorithm" in table.read_text()


def test_what_was_timed_before_an_interrupt_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"collective": "scatter", "ranks": 2, "bytes": 512, "times_us": [1.5]}
    row |= {"algorithm": "direct", "protocol": "slots", "tile_bytes": 0}

    def measure(collective: str, *_: int) -> tuple[list[dict[str, object]], None]:
        if collective == "gather":
            raise KeyboardInterrupt
        return [row], None

    monkeypatch.setattr(tune_work, "measure", measure)
    table = tmp_path / "here.tuning"
    assert cli.run(["tune", "scatter", "gather", "--ranks", "2", "--out", str(table)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert "time scatter ranks 2 bytes 256 algorithm" in table.read_text()


@pytest.mark.parametrize(
    ("before", "written"), [("an older table\n", "here.tuning.partial"), ("", "here.tuning")]
)
def test_after_an_interrupt_a_table_that_was_there_stays(
    before: str, written: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = {"collective": "scatter", "ranks": 2, "bytes": 512, "times_us": [1.5]}
    row |= {"algorithm": "direct", "protocol": "slots", "tile_bytes": 0}

    def measure(collective: str, *_: int) -> tuple[list[dict[str, object]], None]:
        if collective == "gather":
            raise KeyboardInterrupt
        return [row], None

    monkeypatch.setattr(tune_work, "measure", measure)
    table = tmp_path / "here.tuning"
    table.write_text(before)
    answer = tmp_path / "answer.json"
    arguments = ["tune", "scatter", "gather", "--ranks", "2", "--out", str(table)]
    assert cli.run([*arguments, "--json", str(answer)]) == 130
    assert "time scatter ranks 2 bytes 256 algorithm" in (tmp_path / written).read_text()
    assert json.loads(answer.read_text())["file"] == str(tmp_path / written)
    if before:
        assert table.read_text() == before
    else:
        assert not (tmp_path / "here.tuning.partial").exists()


def test_explain_shows_what_was_measured(sennit_command: Command, table: Path) -> None:
    arguments = ("explain", "scatter", "--bytes", "1M", "--json", "-")
    answer = sennit_command(*arguments, SENNIT_TUNING_TABLE=str(table))
    assert answer.returncode == 0, answer.stderr
    explained = json.loads(answer.stdout)
    measured = [row for row in explained["candidates"] if row["measured_us"] is not None]
    best = min(measured, key=lambda row: row["measured_us"])
    assert explained["choice"]["algorithm"] == best["algorithm"]
    assert "was the fastest measured" in explained["reason"]
    untuned = json.loads(sennit_command(*arguments).stdout)
    assert "there is no tuning table" in untuned["reason"]


def test_ranks_take_the_table(sennit_command: Command, table: Path) -> None:
    explained = json.loads(
        sennit_command(
            *("explain", "scatter", "--bytes", "64K", "--table", str(table), "--json", "-")
        ).stdout
    )
    answer = sennit_command(
        *("bench", "scatter", "--ranks", "2", "-b", "128K", "-e", "128K", "-n", "2"),
        *("--json", "-"),
        SENNIT_TUNING_TABLE=str(table),
    )
    assert answer.returncode == 0, answer.stderr
    row = json.loads(answer.stdout)["rows"][0]
    assert row["algorithm"] == explained["choice"]["algorithm"]


def test_a_table_of_another_machine_is_refused(
    sennit_command: Command, table: Path, tmp_path: Path
) -> None:
    lines = table.read_text().splitlines()
    foreign = tmp_path / "foreign.tuning"
    foreign.write_text(
        "\n".join(
            "machine cores 12345" if line.startswith("machine cores") else line for line in lines
        )
    )
    answer = sennit_command("bench", "-e", "8", "-n", "1", SENNIT_TUNING_TABLE=str(foreign))
    assert answer.returncode == 2
    assert "cores is '12345' in the table" in answer.stderr


def test_check_judges_a_table(sennit_command: Command, table: Path) -> None:
    answer = sennit_command("tune", "scatter", "--ranks", "2", "--check", str(table), "--json", "-")
    assert answer.returncode == 0, answer.stderr
    judged = json.loads(answer.stdout)
    assert judged["cells"] == 7
    # The times that it judges by are there as well, and where they were measured.
    assert len(judged["rows"]) >= judged["cells"]
    assert judged["machine"]["cores"] > 0
    assert judged["within_10_percent"] <= judged["within_10_percent_or_spread"] <= 7
    for cell in judged["choices"]:
        if cell["ratio"] is not None:
            assert cell["ratio"] >= 1
            assert cell["within_10_percent"] == (cell["ratio"] <= 1.1)


def test_measured_gpu_calls_are_predicted(sennit_command: Command) -> None:
    measured = str(result_files.RESULTS / "gpu-h200x4.json")
    answer = sennit_command("reproduce", "--measured", measured, "--json", "-")
    assert answer.returncode == 0, answer.stderr
    compared = json.loads(answer.stdout)
    assert compared["within"] == sum(row["verdict"] == "predicted" for row in compared["rows"])
    for row in compared["rows"]:
        assert row["bytes"] >= 1 << 20
        # What docs/simulator.md claims of the collectives that it understands best.
        if row["collective"] in ("all_reduce", "all_gather", "broadcast"):
            assert row["verdict"] == "predicted", row
    assert compared["within"] >= 0.85 * len(compared["rows"])
