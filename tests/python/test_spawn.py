"""spawn: results, the first failure, and nobody left behind."""

from __future__ import annotations

import functools
import importlib.util
import math
import multiprocessing
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import rank_functions
import sennit


@pytest.mark.parametrize("threads", [True, False])
def test_results_come_in_the_order_of_ranks(threads: bool) -> None:
    answers = sennit.spawn(rank_functions.add_arguments, 3, 10, 5, threads=threads)
    assert answers == [15, 16, 17]


@pytest.mark.parametrize("threads", [True, False])
def test_the_first_exception_is_raised_and_names_its_rank(threads: bool) -> None:
    start = time.monotonic()
    with pytest.raises(LookupError, match="what rank 2 did not find") as caught:
        sennit.spawn(rank_functions.raise_in_rank_two, 4, threads=threads)
    assert time.monotonic() - start < 20
    assert "raised by rank 2 of 4" in str(caught.value.__cause__)
    assert "raise_in_rank_two" in str(caught.value.__cause__)
    assert multiprocessing.active_children() == []


def test_a_killed_process_is_named() -> None:
    with pytest.raises(sennit.RankFailed) as caught:
        sennit.spawn(rank_functions.kill_rank_one, 3)
    assert caught.value.blamed_ranks == (1,)
    assert multiprocessing.active_children() == []


def test_a_result_that_cannot_be_pickled_is_an_error_that_says_so() -> None:
    with pytest.raises(TypeError, match="result of rank 0 cannot be pickled"):
        sennit.spawn(rank_functions.return_what_cannot_be_pickled, 2)


def test_no_ranks_are_refused() -> None:
    with pytest.raises(sennit.InvalidArgument, match="at least one rank"):
        sennit.spawn(rank_functions.add_arguments, 0, 1, 2)


def spawn_error(*arguments: Any, **keywords: Any) -> BaseException:
    """What spawn raises; it leaves nobody behind."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        sennit.spawn(*arguments, **keywords)
    assert multiprocessing.active_children() == []
    return caught.value


def test_ranks_may_have_children() -> None:
    assert sennit.spawn(rank_functions.use_children, 2) == [[0], [1]]


def test_a_dead_rank_is_told_though_its_child_lives() -> None:
    start = time.monotonic()
    error = spawn_error(rank_functions.die_with_a_child_alive, 2)
    assert isinstance(error, sennit.RankFailed)
    assert error.blamed_ranks == (1,)
    assert "SIGKILL" in error.evidence
    assert time.monotonic() - start < 15


def test_ranks_die_with_their_caller() -> None:
    program = (
        "import rank_functions, sennit\n"
        "if __name__ == '__main__': sennit.spawn(rank_functions.tell_pid_and_call, 2)"
    )
    caller = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    ranks = [int(caller.stdout.readline()) for _ in range(2)]
    caller.kill()
    caller.communicate()
    until = time.monotonic() + 5
    while any(is_running(rank) for rank in ranks) and time.monotonic() < until:
        time.sleep(0.05)
    assert [rank for rank in ranks if is_running(rank)] == []


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie that a container's init leaves."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (rank_functions.raise_what_cannot_be_read_back, "cannot be read back"),
        (rank_functions.raise_what_cannot_be_pickled, "cannot be pickled"),
    ],
)
def test_an_exception_that_cannot_come_back_is_told_with_all_that_is_known(
    function: Any, words: str
) -> None:
    error = spawn_error(function, 2)
    assert isinstance(error, TypeError)
    for word in ("the error of rank 1", words, function.__name__):
        assert word in str(error)
    assert "raised by rank 1 of 2" in str(error.__cause__)
    if "read" in words:
        assert "disk1 has 0 bytes left" in str(error)


def test_a_result_that_cannot_be_read_back_is_an_error_that_says_so() -> None:
    error = spawn_error(rank_functions.return_what_cannot_be_read_back, 2)
    assert "the result of rank 1 cannot be read back" in str(error)
    assert "Unreadable" in str(error)


@pytest.mark.parametrize("threads", [True, False])
def test_an_exception_of_any_class_is_raised(threads: bool) -> None:
    error = spawn_error(rank_functions.raise_interrupt, 2, threads=threads)
    assert isinstance(error, KeyboardInterrupt)
    assert "raised by rank 1 of 2" in str(error.__cause__)


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize(
    ("code", "how"),
    [(3, "exited with code 3"), (None, "exited with code 0"), ("why", "with code 1 (why)")],
)
def test_a_rank_that_exits_has_failed(threads: bool, code: Any, how: str) -> None:
    error = spawn_error(rank_functions.leave, 2, code, threads=threads)
    assert isinstance(error, sennit.RankFailed)
    assert error.blamed_ranks == (1,)
    assert how in str(error)


def test_a_rank_that_exits_without_a_word_has_failed() -> None:
    error = spawn_error(rank_functions.leave_at_once, 2)
    assert isinstance(error, sennit.RankFailed)
    assert "exited with code 0" in str(error)


def test_exit_handlers_of_ranks_that_succeed_run_to_their_end(tmp_path: Path) -> None:
    sennit.spawn(rank_functions.exit_late, 2, str(tmp_path / "file"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file.0", "file.1"]


@pytest.mark.parametrize("ignored", [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT])
def test_signals_that_the_caller_ignores_change_nothing(ignored: signal.Signals) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        assert sennit.spawn(rank_functions.add_arguments, 2, 1, 1) == [2, 3]
        with pytest.raises(sennit.RankFailed, match="rank 1 of 2"):
            sennit.spawn(rank_functions.leave_at_once, 2)
        start = time.monotonic()
        with pytest.raises(LookupError):
            sennit.spawn(rank_functions.raise_in_rank_two, 3)
        assert time.monotonic() - start < 20
    finally:
        signal.signal(ignored, before)


def test_a_start_that_fails_leaves_nobody_behind() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, limits[1]))
    try:
        start = time.monotonic()
        with pytest.raises(OSError, match="Too many open files"):
            sennit.spawn(rank_functions.wait_alone, 32)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert multiprocessing.active_children() == []
    assert time.monotonic() - start < 15


def test_a_thread_that_cannot_start_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    start_thread = threading.Thread.start
    threads: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(threads) == 2:
            raise RuntimeError("can't start new thread")
        threads.append(thread)
        start_thread(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        sennit.spawn(rank_functions.add_arguments, 3, 1, 2, threads=True)
    for thread in threads:
        thread.join(timeout=5)
        assert not thread.is_alive()


PROGRAMS = {
    "its function": "sennit.spawn(rank, 2)",
    "part of it": "sennit.spawn(functools.partial(rank, more=1), 2)",
    "an argument": "sennit.spawn(rank_functions.add_in_place, 2, Thing())",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_children_cannot_import_is_refused_before_they_start(what: str) -> None:
    program = f"""
import functools, multiprocessing, rank_functions, sennit
class Thing: pass
def rank(comm, more=0): return 1
try:
    {PROGRAMS[what]}
except sennit.InvalidUsage as error:
    print(error)
print(len(multiprocessing.active_children()), sennit.spawn(rank, 2, threads=True))
"""
    answer = subprocess.run(
        [sys.executable], input=program, capture_output=True, text=True, timeout=60, check=False
    )
    refusal, after = answer.stdout.splitlines()
    assert "came from no file" in refusal
    assert "threads=True" in refusal
    assert after == "0 [1, 1]"
    assert answer.stderr == ""


@pytest.mark.parametrize("wrapped", [False, True])
def test_functions_without_a_place_are_refused(wrapped: bool) -> None:
    function: Any = lambda comm: comm.rank  # noqa: E731
    error = spawn_error(functools.partial(function) if wrapped else function, 2)
    assert isinstance(error, sennit.InvalidUsage)
    assert "cannot import" in str(error)
    assert "threads=True" in str(error)


@pytest.mark.parametrize("threads", [True, False])
def test_time_limits_come_from_arguments_then_from_variables(
    threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = functools.partial(sennit.spawn, rank_functions.come_late, 2, 0.9, threads=threads)
    with pytest.raises(sennit.DeadlineExceeded):
        late(deadline_s=0.3)
    monkeypatch.setenv("SENNIT_DEADLINE_S", "0.3")
    with pytest.raises(sennit.DeadlineExceeded):
        late()
    for unlimited in (math.inf, 0) if threads else (math.inf,):
        late(deadline_s=unlimited)
    monkeypatch.setenv("SENNIT_JOIN_TIMEOUT_S", "never")
    with pytest.raises(sennit.InvalidArgument, match="SENNIT_JOIN_TIMEOUT_S='never'"):
        late()
    for timeout_s in (0, -1, math.nan):
        with pytest.raises(sennit.InvalidArgument, match="cannot join within"):
            late(timeout_s=timeout_s)


def test_arguments_are_copied_and_may_be_queues() -> None:
    queue = multiprocessing.get_context("spawn").Queue()
    sennit.spawn(rank_functions.fill_queue, 2, queue)
    assert sorted([queue.get(timeout=5), queue.get(timeout=5)]) == [0, 1]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch")
def test_tensors_that_are_arguments_are_not_shared_by_ranks() -> None:
    import torch

    x = torch.ones(4)
    for result in sennit.spawn(rank_functions.add_in_place, 2, x):
        assert result.tolist() == [2.0] * 4
    assert x.tolist() == [1.0] * 4
