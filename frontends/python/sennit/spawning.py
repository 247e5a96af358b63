"""`spawn`: ranks as processes or threads of one call."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import secrets
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from sennit import _core
from sennit.communicator import Communicator
from sennit.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_GRACE_S = 3.0  # the survivors of a dead rank report within 2 s: time for them to end by themselves
_TERMINATE_S = 1.0  # from the polite signal to the one that cannot be refused
_NAME = "spawn"


class RemoteTraceback(Exception):
    """Cause of an exception that came from a rank: which one, and its traceback as text."""


def spawn(fn: Callable[..., Any], ranks: int, *args: Any, threads: bool = False) -> list[Any]:
    """Run `fn(comm, *args)` on new ranks and wait for all of them.

    Ranks are processes that start afresh: `fn` must be importable and, like `args` and results,
    picklable; a script that calls this needs `if __name__ == "__main__"`. With `threads` they are
    threads of this process, which suits tests and needs nothing to be picklable.

    Args:
        fn: Called once a rank with its communicator, which is destroyed when `fn` returns.
        ranks: Number of ranks, from 1.
        *args: Passed on.
        threads: Threads instead of processes.

    Returns:
        The results by rank.

    Raises:
        RankFailed: A process ended without a result; `blamed_ranks` names it.
        BaseException: The first exception of a rank; its `__cause__` names the rank. The other
            ranks are ended first: processes within 4 s, threads as soon as they are in a call.
    """
    if ranks < 1:
        raise _core.InvalidArgument(f"spawn needs at least one rank, not {ranks}")
    key = f"spawn-{secrets.token_hex(16)}"
    run = _run_threads if threads else _run_processes
    return run(fn, ranks, key, args)


def _join(rank: int, ranks: int, key: str) -> Communicator:
    config = Config().core(_NAME, 60.0, 30.0)
    return Communicator(_core.init_rank(rank, ranks, key, config), _NAME, config)


def _named(error: BaseException, rank: int, ranks: int, trace: str) -> BaseException:
    error.__cause__ = RemoteTraceback(f"raised by rank {rank} of {ranks}\n{trace}")
    return error


class _ThreadRanks:
    """Results and the first error of ranks that are threads."""

    def __init__(self, ranks: int) -> None:
        self.results: list[Any] = [None] * ranks
        self.error: BaseException | None = None
        self._comms: list[Communicator] = []
        self._lock = threading.Lock()

    def abort(self) -> None:
        """End the waiting of all ranks."""
        for comm in self._comms:
            with contextlib.suppress(_core.Error):
                comm.abort()

    def run(self, fn: Callable[..., Any], rank: int, key: str, args: Sequence[Any]) -> None:
        ranks = len(self.results)
        try:
            with _join(rank, ranks, key) as comm:
                self._comms.append(comm)
                try:
                    self.results[rank] = fn(comm, *args)
                except BaseException as error:
                    self._keep_first(error, rank)
                    comm.abort()
        except BaseException as error:
            self._keep_first(error, rank)

    def _keep_first(self, error: BaseException, rank: int) -> None:
        with self._lock:
            if self.error is None:
                self.error = _named(error, rank, len(self.results), traceback.format_exc())


def _run_threads(fn: Callable[..., Any], ranks: int, key: str, args: Sequence[Any]) -> list[Any]:
    state = _ThreadRanks(ranks)
    threads = [
        threading.Thread(target=state.run, args=(fn, rank, key, args), name=f"rank {rank}")
        for rank in range(ranks)
    ]
    for thread in threads:
        thread.daemon = True  # a rank that computes on must not keep the program from ending
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        state.abort()
        raise
    if state.error is not None:
        raise state.error
    return state.results


class _Outcome(NamedTuple):
    """What a process sends before it ends."""

    time_s: float  # of the system, so that the failures of several processes have an order
    result: Any
    error: BaseException | None
    trace: str = ""


def _process_main(
    outcomes: Connection,
    fn: Callable[..., Any],
    rank: int,
    ranks: int,
    key: str,
    args: Sequence[Any],
) -> None:
    try:
        with _join(rank, ranks, key) as comm:
            try:
                result = fn(comm, *args)
            except BaseException as error:
                # First, so that no rank can report what this one is about to do to it.
                _send(outcomes, rank, None, error)
                comm.abort()
                return
    except BaseException as error:
        _send(outcomes, rank, None, error)
    else:
        _send(outcomes, rank, result, None)


def _send(outcomes: Connection, rank: int, result: Any, error: BaseException | None) -> None:
    now_s = time.monotonic()
    trace = "" if error is None else "".join(traceback.format_exception(error))
    try:
        outcomes.send(_Outcome(now_s, result, error, trace))
    except Exception as refusal:
        what = f"the result of rank {rank}" if error is None else f"the error of rank {rank}"
        shown = trace or repr(result)
        reason = TypeError(f"{what} cannot be pickled ({refusal}): {shown}")
        outcomes.send(_Outcome(now_s, None, reason, trace))


class _ProcessRanks:
    """Processes that run one function each, and what has come back from them."""

    def __init__(self, fn: Callable[..., Any], ranks: int, key: str, args: Sequence[Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.results: list[Any] = [None] * ranks
        self.pending: dict[int, Connection] = {}
        self.processes: list[BaseProcess] = []
        for rank in range(ranks):
            here, there = context.Pipe(duplex=False)
            process = context.Process(
                target=_process_main,
                args=(there, fn, rank, ranks, key, args),
                name=f"rank {rank}",
                daemon=True,
            )
            process.start()
            there.close()
            self.pending[rank] = here
            self.processes.append(process)

    def take(self, timeout_s: float | None) -> list[tuple[float, BaseException]]:
        """Wait for outcomes; the failures among them, with their times."""
        by_pipe: dict[Any, int] = {pipe: rank for rank, pipe in self.pending.items()}
        ready = multiprocessing.connection.wait(list(by_pipe), timeout_s)
        failures = (self._take(by_pipe[pipe]) for pipe in ready)
        return [failure for failure in failures if failure is not None]

    def _take(self, rank: int) -> tuple[float, BaseException] | None:
        ranks = len(self.results)
        with self.pending.pop(rank) as pipe:
            try:
                outcome: _Outcome = pipe.recv()
            except EOFError:
                # Whatever other ranks say of it came later.
                return -math.inf, _death(self.processes[rank], rank, ranks)
        if outcome.error is not None:
            return outcome.time_s, _named(outcome.error, rank, ranks, outcome.trace)
        self.results[rank] = outcome.result
        return None

    def end(self, grace_s: float) -> None:
        """End all processes within grace_s + 1 s."""
        until = time.monotonic() + grace_s
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
        for process in self.processes:
            process.terminate()
        until = time.monotonic() + _TERMINATE_S
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            process.kill()
            process.join()
            process.close()
        for pipe in self.pending.values():
            pipe.close()


def _death(process: BaseProcess, rank: int, ranks: int) -> _core.RankFailed:
    process.join(_TERMINATE_S)
    code = process.exitcode
    how = f"exited with code {code}"
    if code is not None and code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    error = _core.RankFailed(
        f"rank {rank} of {ranks} (pid {process.pid}) {how} before it had returned a result"
    )
    error.blamed_ranks = (rank,)
    error.size = ranks
    error.evidence = how
    return error


def _run_processes(fn: Callable[..., Any], ranks: int, key: str, args: Sequence[Any]) -> list[Any]:
    running = _ProcessRanks(fn, ranks, key, args)
    failures: list[tuple[float, BaseException]] = []
    try:
        while running.pending and not failures:
            failures = running.take(None)
        # The cause is there by the time that its consequences are.
        failures += running.take(0.0) if failures else []
    except BaseException:
        running.end(grace_s=0.0)
        raise
    running.end(_GRACE_S)
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]
    return running.results
