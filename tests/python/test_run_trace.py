"""`sennit run --trace`: each call is in the timeline, on its rank's track, with what it ran as."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from sennit.cli.call_trace import Event, read_events, timeline
from test_run import NCCL_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def trace(sennit_command: Command, tmp_path: Path) -> Callable[..., tuple[Any, list[Any]]]:
    """Runs a Python program of NCCL in host memory; the finished process, and the events."""

    def start(program: str, **environment: str) -> tuple[Any, list[Any]]:
        file = tmp_path / "trace.json"
        done = sennit_command(
            *("run", "--trace", str(file), "--", sys.executable, "-c", program),
            SENNIT_DEVICE="host",
            **environment,
        )
        return done, json.loads(file.read_text())["traceEvents"]

    return start


def calls_of(events: list[Any]) -> list[Any]:
    return [event for event in events if event["ph"] == "X"]


def tracks_of(events: list[Any]) -> dict[tuple[int, int], str]:
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }


def test_each_rank_has_a_track_of_its_calls(trace: Callable[..., tuple[Any, list[Any]]]) -> None:
    done, events = trace(NCCL_PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "the trace has" not in done.stderr
    tracks = tracks_of(events)
    counted = Counter(
        (tracks[event["pid"], event["tid"]], event["name"]) for event in calls_of(events)
    )
    assert counted == {
        (rank, name): calls
        for rank in ("rank 0 of 2", "rank 1 of 2")
        for name, calls in {
            "ncclAllReduce": 3,
            "ncclBroadcast": 1,
            "ncclSend": 1,
            "ncclRecv": 1,
            "ncclGroupEnd": 1,
        }.items()
    }


def test_a_call_has_bytes_algorithm_path_and_times(
    trace: Callable[..., tuple[Any, list[Any]]],
) -> None:
    _, events = trace(NCCL_PROGRAM)
    (*_, reduction) = (event for event in calls_of(events) if event["name"] == "ncclAllReduce")
    assert reduction["cat"] == "Sennit"
    assert reduction["args"]["bytes"] == 32
    assert reduction["args"]["algorithm"]
    assert "shm" in reduction["args"]["path"]
    assert reduction["ts"] >= 0
    assert 0 < reduction["dur"] < 60e6


def test_a_call_of_a_group_does_not_claim_the_plan_of_the_call_before(
    trace: Callable[..., tuple[Any, list[Any]]],
) -> None:
    _, events = trace(NCCL_PROGRAM)
    sends = [event for event in calls_of(events) if event["name"] == "ncclSend"]
    assert len(sends) == 2
    assert not any("algorithm" in event["args"] for event in sends)


def test_processes_of_a_launcher_have_its_ranks(
    trace: Callable[..., tuple[Any, list[Any]]],
) -> None:
    program = """
import os, subprocess, sys
job = {"WORLD_SIZE": "3", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
for rank in range(2, 0, -1):
    subprocess.run([sys.executable, "-c", '''
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
assert nccl.ncclGroupStart() == 0
assert nccl.ncclGroupEnd() == 0
'''], check=True, env=os.environ | job | {"RANK": str(rank)})
"""
    done, events = trace(program)
    assert done.returncode == 0, done.stderr
    assert sorted(tracks_of(events).values()) == ["rank 1 of 3", "rank 2 of 3"]
    assert len({event["pid"] for event in calls_of(events)}) == 2


def test_what_a_trace_leaves_out_is_said(trace: Callable[..., tuple[Any, list[Any]]]) -> None:
    done, events = trace(NCCL_PROGRAM, SENNIT_TRACE_CALLS="5")
    assert len(calls_of(events)) == 5
    assert "the trace has 5 of 14 calls. Next: set SENNIT_TRACE_CALLS" in done.stderr


def test_what_a_killed_process_called_is_kept(trace: Callable[..., tuple[Any, list[Any]]]) -> None:
    done, events = trace(
        NCCL_PROGRAM + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert done.returncode == 128 + 9
    assert len(calls_of(events)) == 14


def test_a_trace_that_cannot_be_written_stops_the_run(sennit_command: Command) -> None:
    done = sennit_command("run", "--trace", "/no/dir/x.json", "--", "echo", "ran")
    assert done.returncode == 2
    assert "cannot write /no/dir/x.json" in done.stderr
    assert "ran" not in done.stdout


def event(**changes: Any) -> Event:
    """A call of rank 0 of two, 1 us long, but for the changes."""
    values: dict[str, Any] = {
        "begin_ns": 5_000,
        "end_ns": 6_000,
        "bytes": 8,
        "pid": 1,
        "thread": 10,
        "rank": 0,
        "size": 2,
        "rank_in_job": -1,
        "job_size": 0,
        "name": "MPI_Allreduce",
        "algorithm": "ring",
        "paths": "shm",
        "why": "",
    }
    return Event(**(values | changes))


def test_a_call_that_was_passed_on_is_on_the_track_of_its_thread_with_the_reason() -> None:
    events = timeline([event(rank=1), event(rank=-1, size=0, algorithm="", paths="", why="a type")])
    (taken, passed_on) = calls_of(events["traceEvents"])
    assert (passed_on["pid"], passed_on["tid"]) == (taken["pid"], taken["tid"]) == (1, 1)
    assert passed_on["cat"] == "passed on"
    assert passed_on["args"] == {"bytes": 8, "passed on": "a type"}


def test_ranks_of_one_thread_have_tracks_of_their_own() -> None:
    events = timeline([event(rank=0), event(rank=1), event(rank=0, size=1), event(rank=1)])
    tracks = tracks_of(events["traceEvents"])
    assert [tracks[one["pid"], one["tid"]] for one in calls_of(events["traceEvents"])] == [
        "rank 0 of 2",
        "rank 1 of 2",
        "thread 10",
        "rank 1 of 2",
    ]


def test_times_are_us_from_the_first_call_on() -> None:
    events = timeline([event(), event(begin_ns=7_500, end_ns=7_750)])
    assert [(one["ts"], one["dur"]) for one in calls_of(events["traceEvents"])] == [
        (0, 1),
        (2.5, 0.25),
    ]


def test_a_trace_of_no_calls_has_no_events() -> None:
    assert timeline([])["traceEvents"] == []


def test_files_that_are_no_traces_and_a_call_cut_short_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "trace-1").write_bytes(b"x" * 300)
    (tmp_path / "trace-2").write_bytes(b"SNTCALL\0" + b"\0" * 100)
    assert read_events(tmp_path) == []
