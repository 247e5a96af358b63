"""The failure matrix of the front ends: what happens to a rank, when, and what the others get.

Columns of `MATRIX` are moments: joining, splitting, in a call, waiting for one, leaving. A cell is
what the survivors get; all of them, in time, and who is to blame.
"""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import failure_ranks
import pytest
from failure_ranks import DEADLINE_S, HAS_TORCH, JOIN_S, RANKS, VICTIM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from failure_ranks import Outcome

MOMENTS = ("join", "split", "call", "wait", "destroy")
NOBODY_CAME = "JoinTimeout"
DEAD = "RankFailed"
LATE = "DeadlineExceeded"
GONE = "Mismatch"  # it has left the communicator, or makes another call
ABORTED = "Aborted"
NOTHING = ""

#                  join         split                call     wait     destroy
PYTHON = {
    "kill":       (NOBODY_CAME, DEAD,                DEAD,    DEAD,    NOTHING),
    "leave":      (NOBODY_CAME, DEAD,                DEAD,    DEAD,    NOTHING),
    "term":       (NOBODY_CAME, DEAD,                DEAD,    DEAD,    NOTHING),
    "stop":       (NOBODY_CAME, LATE,                LATE,    LATE,    NOTHING),
    "exit":       (NOBODY_CAME, GONE,                GONE,    GONE,    NOTHING),
    "exception":  (NOBODY_CAME, GONE,                GONE,    GONE,    NOTHING),
    "interrupt":  (None,        ABORTED,             ABORTED, ABORTED, NOTHING),
    # It has all that calls need; a new communicator needs more, and it ends with that error.
    "no descriptors": (NOBODY_CAME, DEAD,            NOTHING, NOTHING, NOTHING),
    # A split is a call, too.
    "no process_vm_readv": (NOTHING, DEAD,           DEAD,    DEAD,    NOTHING),
    "no memfd_create": (NOTHING, NOTHING,            NOTHING, NOTHING, NOTHING),
    "no pidfd_open": (NOBODY_CAME, DEAD,             NOTHING, NOTHING, NOTHING),
}  # fmt: skip
TORCH = {
    "kill":       (NOBODY_CAME, NOBODY_CAME,         DEAD,    DEAD,    NOTHING),
    "stop":       (NOBODY_CAME, NOBODY_CAME,         LATE,    LATE,    NOTHING),
    "leave":      (NOBODY_CAME, NOBODY_CAME,         DEAD,    DEAD,    NOTHING),
    "term":       (NOBODY_CAME, NOBODY_CAME,         DEAD,    DEAD,    NOTHING),
    "exit":       (NOBODY_CAME, NOBODY_CAME,         DEAD,    DEAD,    NOTHING),
    "exception":  (NOBODY_CAME, NOBODY_CAME,         DEAD,    DEAD,    NOTHING),
    "interrupt":  (None,        NOBODY_CAME,         ABORTED, ABORTED, NOTHING),
    # The store is a file, which it cannot open.
    "no descriptors": (NOBODY_CAME, NOBODY_CAME,     NOTHING, NOTHING, NOTHING),
    "no process_vm_readv": (NOTHING, NOTHING,        DEAD,    DEAD,    NOTHING),
    "no pidfd_open": (NOBODY_CAME, NOBODY_CAME,      None,    None,    None),
}  # fmt: skip
MATRIX: dict[str, dict[str, tuple[str | None, ...]]] = {"python": {**PYTHON}, "torch": {**TORCH}}

# From the event on; failures.md of the contract, with a second for a busy machine.
LONGEST_S = {
    NOBODY_CAME: JOIN_S + 2,
    DEAD: 2 + 1,
    LATE: DEADLINE_S + 2,
    GONE: 1 + 1,
    ABORTED: 1 + 1,
    NOTHING: 5 + 1,
}

CELLS = [
    pytest.param(front_end, moment, event, expected, id=f"{front_end}-{event}-{moment}")
    for front_end, rows in MATRIX.items()
    for event, row in rows.items()
    for moment, expected in zip(MOMENTS, row, strict=True)
    if expected is not None
]


@pytest.fixture(scope="module")
def server() -> Any:
    """Processes that begin with all modules imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["failure_ranks"])
    return context


@contextlib.contextmanager
def ranks(server: Any, target: Callable[..., None], *arguments: Any) -> Iterator[list[Any]]:
    """Processes and pipes of ranks; `arguments` are made for each. None is left."""
    started = []
    try:
        for rank in range(RANKS):
            here, there = server.Pipe(duplex=False)
            its = [argument(rank) if callable(argument) else argument for argument in arguments]
            process = server.Process(target=target, args=(there, *its))
            process.start()
            there.close()
            started.append((process, here))
        yield started
    finally:
        for process, pipe in started:
            process.kill()
            process.join()
            process.close()
            pipe.close()


def outcome_of(pipe: Any) -> Outcome | None:
    """What a rank has reported; None: it has died."""
    if not pipe.poll(20):
        pytest.fail("a rank reports nothing")
    try:
        outcome: Outcome = pipe.recv()
    except EOFError:
        return None
    return outcome


def place_for(front_end: str, folder: Path) -> str:
    """Where the ranks meet: a store of PyTorch, or a key."""
    return str(folder / "store") if front_end == "torch" else f"matrix {os.getpid()} {time.time()}"


def skip_without_filter(victim: Outcome | None) -> None:
    """Skip the test where the victim could not have its own system calls refused."""
    if victim is not None and victim.error == "NoFilter":
        pytest.skip("host: the kernel takes no filter")


@pytest.mark.parametrize(("front_end", "moment", "event", "expected"), CELLS)
def test_survivors_are_told_in_time_and_whom_to_blame(
    server: Any, tmp_path: Path, front_end: str, moment: str, event: str, expected: str
) -> None:
    if front_end == "torch" and not HAS_TORCH:
        pytest.skip("torch: needs PyTorch")
    began = server.Value("d", 0.0)
    place = place_for(front_end, tmp_path)
    arguments = (front_end, moment, event, lambda rank: rank, place, began)
    with ranks(server, failure_ranks.be_a_rank, *arguments) as started:
        if event in failure_ranks.REFUSED:
            skip_without_filter(outcome_of(started[VICTIM][1]))
        survivors = [pipe for rank, (_, pipe) in enumerate(started) if rank != VICTIM]
        for outcome in [outcome_of(pipe) for pipe in survivors]:
            assert outcome is not None
            assert outcome.error == expected, outcome.text
            assert outcome.ended_at - began.value < LONGEST_S[expected], outcome.text
            assert outcome.blamed == ((VICTIM,) if expected else ()), outcome.text
        if front_end == "python" and event == "no descriptors" and expected != NOTHING:
            outcome = outcome_of(started[VICTIM][1])
            assert outcome is not None
            assert outcome.error == "SystemFailure"
            assert "file descriptors" in outcome.text


ODD: dict[str, tuple[dict[bytes, bytes], tuple[str, int], str]] = {
    # What the kernel may refuse in a container: another way is found, or the error names the call.
    "no process_vm_readv": ({}, ("process_vm_readv", errno.EPERM), NOTHING),
    "no memfd_create": ({}, ("memfd_create", errno.ENOSYS), NOTHING),
    "no pidfd_open": ({}, ("pidfd_open", errno.EPERM), "Unsupported pidfd_open is refused"),
    # What is no text.
    "key": ({b"SENNIT_NO_SUCH": b"\xff"}, ("", 0), NOTHING),
    "folder of sockets": ({b"SENNIT_SOCKET_DIR": b"FOLDER/\xff"}, ("", 0), NOTHING),
    "file of messages": (
        {b"SENNIT_DEBUG": b"INFO", b"SENNIT_DEBUG_FILE": b"FOLDER/\xff"},
        ("", 0),
        NOTHING,
    ),
    "table": ({b"SENNIT_TUNING_TABLE": b"FOLDER/\xff.tuning"}, ("", 0), r"Error \xff.tuning"),
    "paths": ({b"SENNIT_PATHS": b"\xff"}, ("", 0), r"InvalidArgument \xff"),
    # Folders that cannot be written, also by root.
    "sockets in a folder of the kernel": (
        {b"SENNIT_SOCKET_DIR": b"/proc/self"},
        ("", 0),
        "Error SENNIT_SOCKET_DIR",
    ),
    "messages in a folder that is not there": (
        {b"SENNIT_DEBUG": b"INFO", b"SENNIT_DEBUG_FILE": b"/no/such/folder/file"},
        ("", 0),
        NOTHING,
    ),
}


@pytest.mark.parametrize("front_end", failure_ranks.FRONT_ENDS)
@pytest.mark.parametrize("what", ODD)
def test_odd_places_work_or_are_named(
    server: Any, tmp_path: Path, what: str, front_end: str
) -> None:
    if front_end == "torch" and not HAS_TORCH:
        pytest.skip("torch: needs PyTorch")
    folder = os.fsencode(tmp_path)
    (tmp_path / os.fsdecode(b"\xff")).mkdir(mode=0o700)
    variables, refused, expected = ODD[what]
    variables = {name: value.replace(b"FOLDER", folder) for name, value in variables.items()}
    arguments = (front_end, lambda rank: rank, place_for(front_end, tmp_path), variables, refused)
    with ranks(server, failure_ranks.be_a_rank_somewhere_odd, *arguments) as started:
        for outcome in [outcome_of(pipe) for _, pipe in started]:
            assert outcome is not None
            if outcome.error == "skipped":
                pytest.skip(f"host: {outcome.text}")
            error, _, words = expected.partition(" ")
            assert bool(outcome.error) == bool(error), outcome
            assert error in ("", "Error", outcome.error), outcome
            assert words in outcome.text, outcome


# The command line: the ranks of `sennit bench` are processes of their own, with its limits.
BENCH = ("bench", "all_reduce", "--ranks", "2", "-b", "8", "-e", "8", "-n", "5", "-w", "1")
LIMITED: dict[str, tuple[Callable[[], Any], dict[str, str], str]] = {
    "no process_vm_readv": (lambda: refuse("process_vm_readv", errno.EPERM), {}, ""),
    "no memfd_create": (lambda: refuse("memfd_create", errno.ENOSYS), {}, ""),
    "no pidfd_open": (lambda: refuse("pidfd_open", errno.EPERM), {}, "pidfd_open is refused"),
    "few descriptors": (
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14)),
        {},
        "ulimit -n",
    ),
    "temporary folder that cannot be written": (lambda: None, {"TMPDIR": "/proc/self"}, ""),
    "temporary folder whose name is no text": (lambda: None, {"TMPDIR": "FOLDER/\udcff"}, ""),
}


def refuse(name: str, error: int) -> None:
    """Refuse a system call; a process that cannot ask for that ends with 77."""
    if not failure_ranks.refuse_system_call(name, error):
        os._exit(77)


@pytest.mark.parametrize("what", LIMITED)
def test_a_benchmark_with_limits_ends_well_or_names_them(tmp_path: Path, what: str) -> None:
    limit, variables, words = LIMITED[what]
    (tmp_path / "\udcff").mkdir(mode=0o700)
    variables = {name: value.replace("FOLDER", str(tmp_path)) for name, value in variables.items()}
    answer = subprocess.run(
        [sys.executable, "-m", "sennit", *BENCH],
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **variables},
        preexec_fn=limit,
        capture_output=True,
        timeout=100,
        check=False,
    )
    errors = answer.stderr.decode(errors="replace")
    if answer.returncode == 77:
        pytest.skip("host: the kernel takes no filter")
    assert "Traceback" not in errors, errors
    assert words in errors, errors
    assert (answer.returncode == 0) == (words == ""), errors
    assert list((tmp_path / "\udcff").iterdir()) == []


def test_each_call_has_a_line_at_level_trace(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = """
import numpy as np, sennit
def rank(comm):
    for _ in range(3):
        comm.all_reduce(np.ones(4, np.float32))
    comm.send(np.ones(2), 1) if comm.rank == 0 else comm.recv(np.ones(2), 0)
sennit.spawn(rank, 2, threads=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SENNIT_DEBUG": "TRACE", "SENNIT_DEBUG_FILE": str(log)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    for rank in range(2):
        numbers = [
            re.search(r"all_reduce number (\d+): 16 bytes by \w+$", line)
            for line in lines
            if f"[{rank}] TRACE call: all_reduce" in line
        ]
        assert [found and found[1] for found in numbers] == ["1", "2", "3"]
    assert any("[0] TRACE call: send to or from 1, tag 0: 16 bytes by" in line for line in lines)
    assert any("[1] TRACE call: recv to or from 0, tag 0: 16 bytes by" in line for line in lines)
