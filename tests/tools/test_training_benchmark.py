"""The training benchmark: turns, orders, and what makes its rows wrong. Needs no PyTorch."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
import train
from jobs import Job, JobFailed

RAN = {"calls": 3, "bytes": 7680, "passed_on": 0}
NOTHING = {"calls": 0, "bytes": 0, "passed_on": 0}
# A rank that says its number, what it was sent, and lines that are no answers.
ECHO = """
import json, os, sys
for line in sys.stdin:
    print("[library] connected", flush=True)
    print(json.dumps({"rank": os.environ["RANK"], "of": os.environ["WORLD_SIZE"], "told": line}),
          flush=True)
"""
# One of which rank 1 dies at the first order, and the others answer nothing.
DYING = """
import os, sys
sys.stdin.readline()
if os.environ["RANK"] == "1":
    sys.exit("no memory left")
sys.stdin.readline()
"""


def job(folder: Path, program: str) -> Job:
    return Job(folder, 3, [sys.executable, "-c", program])


def test_every_rank_gets_the_order_and_answers(tmp_path: Path) -> None:
    with job(tmp_path, ECHO).start(None, None) as running:
        for count in (1, 2):
            answers = running.order("steps", 60, count=count)
            assert [answer["rank"] for answer in answers] == ["0", "1", "2"]
            assert {answer["of"] for answer in answers} == {"3"}
            told = {"do": "steps", "count": count}
            assert all(json.loads(answer["told"]) == told for answer in answers)
        running.end(60)


def test_a_rank_that_dies_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE_S", 0.2)
    with job(tmp_path, DYING).start(None, None) as running:
        with pytest.raises(JobFailed, match=r"rank 1 of 3 ended with code 1:\s+no memory left"):
            running.order("steps", 60, count=1)
        # The others have had the time to say what they saw, and no more.
        with pytest.raises(JobFailed, match="rank 0 of 3 did not answer in time"):
            running.answers(0.1)


def test_what_the_library_counted_is_added_up(tmp_path: Path) -> None:
    for rank, calls in enumerate((3, 4)):
        line = f"a communicator ends: {calls} calls of 8 bytes ran on Sennit, 1 were passed on\n"
        (tmp_path / f"sennit-{rank}.log").write_text(2 * line, encoding="utf-8")
    assert job(tmp_path, ECHO).share() == {"calls": 14, "bytes": 32, "passed_on": 4}


class FakeJob:
    """Ranks that take `step_s` for a step, and write down who was asked for what."""

    def __init__(self, name: str, step_s: float, diary: list[str], broken: str) -> None:
        self.name = name
        self.step_s = step_s
        self.diary = diary
        self.broken = broken

    def order(self, what: str, _limit_s: float, **words: Any) -> list[dict[str, Any]]:
        return [self.answer(what, rank, words) for rank in range(2)]

    def answer(self, what: str, rank: int, words: dict[str, Any]) -> dict[str, Any]:
        if rank == 0 and what == "steps":
            self.diary.append(f"{self.name} {words['count']}")
        is_broken = self.name == "sennit"
        sent = 30 if is_broken and self.broken == "bytes" else 20
        counts = is_broken and self.broken != "uncounted"
        loss = 9.0 if is_broken and self.broken == "loss" else 7.0
        loss = float("nan") if is_broken and self.broken == "nan" else loss
        checksum = 18 if is_broken and self.broken == "bits" and rank == 1 else 17
        answers: dict[str, dict[str, Any]] = {
            "about": {"torch": "2"},
            "build": {"parameters": 10},
            "steps": {
                "elapsed_s": self.step_s * words.get("count", 0) * (1 + rank),
                "loss": loss,
                "messages": {"all_reduce": {str(sent): 2}} if counts else {},
            },
            "drop": {"checksum": checksum, "buckets": [10, 15, 15]},
        }
        return answers[what]

    def end(self, _limit_s: float) -> None:
        self.diary.append(f"{self.name} ends")

    def share(self) -> dict[str, int]:
        return RAN if self.name == "sennit" else NOTHING


def arguments(*more: str) -> Any:
    small = ("--images", "4", "--warmup", "2", "--iterations", "5", "--rounds", "2")
    return train.options_of(["--out", "x", "--device", "cpu", *small, *more])


COMBINATION = {"model": "resnet50", "bucket_mb": 25}


def measure(diary: list[str], broken: str) -> dict[str, Any]:
    running: Any = {
        "sennit": FakeJob("sennit", 0.5, diary, broken),
        "gloo": FakeJob("gloo", 0.75, diary, ""),
    }
    return train.measured(running, COMBINATION, arguments("--rival", "gloo"))


def test_libraries_take_turns_and_each_begins_once() -> None:
    diary: list[str] = []
    row = measure(diary, "")
    assert diary[-4:] == ["sennit 5", "gloo 5", "gloo 5", "sennit 5"]
    # Of the slowest rank: 5 steps of 1 s, in which 2 ranks trained 4 images a step.
    assert row["images_per_s"] == pytest.approx(8)
    assert row["images_per_s_range"] == pytest.approx([8, 8])
    assert row["ms_a_step"] == pytest.approx(1000)
    assert row["rival_ms_a_step"] == pytest.approx(1500)
    assert row["ratio"] == pytest.approx(1.5)
    assert row["messages"]["step"] == {"all_reduce": {"20": 2}}
    assert row["messages"]["counted_by"] == "sennit"
    assert row["faults"] == []


def test_where_nobody_counts_the_buckets_of_ddp_are_the_messages() -> None:
    row = measure([], "uncounted")
    assert row["messages"]["step"] == {"all_reduce": {"10": 1, "15": 2}}
    assert row["messages"]["counted_by"] == "ddp"
    assert row["faults"] == []


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("bytes", "60 bytes were reduced for 10 gradients"),
        ("loss", "the losses are"),
        ("nan", "the losses are"),
        ("bits", "sennit: the ranks have come to different parameters"),
    ],
)
def test_a_row_that_cannot_be_right_says_so(broken: str, words: str) -> None:
    (fault,) = measure([], broken)["faults"]
    assert words in fault


def test_sizes_that_are_not_known_are_no_fault() -> None:
    row = measure([], "")
    row["messages"] = {"counted_by": "ddp", "step": {"all_reduce": {}}}
    assert train.faults(row, {}) == []


def test_all_models_come_before_the_next_size_and_what_is_late_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("train.time.monotonic", lambda: float(next(clock)))
    diary: list[str] = []

    @contextlib.contextmanager
    def fake_jobs(_options: Any) -> Iterator[dict[str, Any]]:
        yield {"sennit": FakeJob("sennit", 0.5, diary, "")}

    monkeypatch.setattr(train, "jobs", fake_jobs)
    options = arguments("--limit-s", "70", "--bucket-mb", "25", "--bucket-mb", "64")
    document: dict[str, Any] = {"rows": [], "not_run": []}
    train.train_all(options, document)
    trained = [(row["model"], row["bucket_mb"]) for row in document["rows"]]
    assert trained == [(model, 25) for model in train.MODELS[:3]]
    assert [left["bucket_mb"] for left in document["not_run"]] == [25, 64, 64, 64, 64]
    assert "densenet201, 25 MB: no time was left" in capsys.readouterr().out
    assert diary[-1] == "sennit ends"


@pytest.mark.parametrize(
    ("ours", "theirs", "faults", "passes"),
    [
        (RAN, NOTHING, [], True),
        (NOTHING, NOTHING, [], False),
        (RAN, RAN, [], False),
        (RAN, NOTHING, ["a fault"], False),
        ({**RAN, "bytes": RAN["bytes"] - 1}, NOTHING, [], False),
    ],
)
def test_on_gpus_each_library_ran_in_its_job(
    ours: dict[str, int], theirs: dict[str, int], faults: list[str], passes: bool
) -> None:
    options = train.options_of(["--out", "x", "--ours", "libnccl.so.2"])
    assert (options.rival, options.ranks, options.images) == ("nccl", 4, 32)
    options.warmup, options.rounds, options.iterations = 4, 2, 5
    # 16 steps of 4 ranks with 30 gradients of 4 bytes make 7680.
    rows = [{"faults": faults, "parameters": count, "ranks": 4} for count in (10, 20)]
    document = {"ran_on_sennit": {"sennit": ours, "nccl": theirs}, "rows": rows}
    assert train.passed(options, document) is passes
    assert not train.passed(options, {**document, "rows": []})


def test_gpus_need_a_library_and_their_rival(capsys: pytest.CaptureFixture[str]) -> None:
    for line, words in (
        (["--device", "cuda"], "--ours names"),
        (["--device", "cpu", "--rival", "nccl"], "nccl is no rival on cpu"),
    ):
        with pytest.raises(SystemExit):
            train.options_of(["--out", "x", *line])
        assert words in capsys.readouterr().err
