"""A short soak, and that it would find what it looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import rounds  # noqa: E402
import soak  # noqa: E402
from rounds import Outcome, Plan  # noqa: E402


def plan(event: str) -> Plan:
    return Plan(seed=1, ranks=3, key="", event=event, victim=1, at=0)


def test_random_rounds_end_as_they_should() -> None:
    answer = subprocess.run(
        [sys.executable, str(HERE / "soak.py"), "--rounds", "25", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "25 rounds" in answer.stdout


@pytest.mark.parametrize(
    ("event", "of_survivor", "words"),
    [
        ("none", Outcome("RankFailed", (1,)), "got RankFailed"),
        ("kill", Outcome(), "got nothing"),
        ("kill", Outcome("RankFailed", (2,)), "blames"),
        ("abort", Outcome("Mismatch", (1,)), "got Mismatch"),
        ("none", Outcome(wrong="all_reduce"), "all_reduce"),
        ("none", None, "has died"),
    ],
)
def test_a_wrong_outcome_is_found(event: str, of_survivor: Outcome | None, words: str) -> None:
    right = {"none": Outcome(), "kill": Outcome("RankFailed", (1,)), "abort": Outcome("Aborted")}
    victim = None if event == "kill" else Outcome(right[event].error)
    (problem,) = soak.judge(plan(event), [of_survivor, victim, right[event]])
    assert "rank 0" in problem
    assert words in problem
    assert list(soak.judge(plan(event), [right[event], victim, right[event]])) == []


def test_what_grows_is_found() -> None:
    held = soak.Holdings(descriptors=9, threads=2, mappings=200, kib=50_000)
    more = held._replace(descriptors=10, threads=3)
    assert soak.growth(held, held) == []
    assert [text.split(":")[0] for text in soak.growth(held, more)] == ["descriptors", "threads"]
    large = held._replace(mappings=1000, kib=90_000)
    assert [text.split(":")[0] for text in soak.growth(held, large)] == ["mappings", "kib"]


def test_wrong_values_are_found() -> None:
    with pytest.raises(rounds.WrongValues, match="all_reduce"):
        rounds.require([1, 2], [1, 3], "all_reduce")
