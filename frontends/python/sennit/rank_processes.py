"""Ranks that are processes which start afresh."""

from __future__ import annotations

import contextlib
import ctypes
import math
import multiprocessing
import os
import pickle
import reprlib
import signal
import time
import traceback
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple

from sennit.packed_job import PackedJob
from sennit.rank_job import ended, exit_text, named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from sennit.communicator import Communicator
    from sennit.rank_job import Job

_GRACE_S = 3.0  # the survivors of a dead rank report within 2 s: time for them to end by themselves
_TERMINATE_S = 1.0  # from the polite signal to the one that cannot be refused
_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def run(job: Job) -> list[Any]:
    """Run the job on processes; its results by rank."""
    ranks = _Ranks(job)
    failures: list[_Failure] = []
    try:
        ranks.start(job)
        while ranks.running and not failures:
            failures = ranks.take(None)
        # The cause is there by the time that its consequences are.
        failures += ranks.take(0.0) if failures else []
        ranks.end(_GRACE_S if failures else None)
    except BaseException:
        ranks.end(0.0)
        raise
    if failures:
        raise min(failures, key=lambda failure: failure.time_s).error
    return ranks.results


class _Outcome(NamedTuple):
    """What a rank sends before it ends. All but `packed` can be read by anybody."""

    time_s: float  # of the system, so that the failures of several processes have an order
    is_error: bool
    packed: bytes  # the result or the exception; empty: it cannot be pickled, `problem` says why
    problem: str
    text: str  # the traceback, or what can be shown of the result


class _Outbox:
    """The rank's end of the pipe; sends the first of its outcomes."""

    def __init__(self, pipe: Connection, rank: int, ranks: int) -> None:
        self._pipe: Connection | None = pipe
        self._rank = rank
        self._ranks = ranks
        # A child of this process must not keep the pipe open beyond the end of this process.
        os.register_at_fork(after_in_child=pipe.close)

    def send_result(self, result: Any) -> None:
        self._send(result, is_error=False, text=type(result).__qualname__)

    def send_error(self, error: BaseException) -> None:
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, SystemExit):
            error = ended(self._rank, self._ranks, os.getpid(), exit_text(error))
        self._send(error, is_error=True, text=trace)

    def _send(self, value: Any, *, is_error: bool, text: str) -> None:
        if self._pipe is None:
            return
        pipe, self._pipe = self._pipe, None
        packed, problem = b"", ""
        time_s = time.monotonic()
        try:
            packed = pickle.dumps(value)
        except Exception as refusal:
            problem = f"cannot be pickled ({refusal!r})"
            text = text if is_error else reprlib.repr(value)
        outcome = _Outcome(time_s, is_error, packed, problem, text)
        pipe.send_bytes(pickle.dumps(tuple(outcome)))


def _process_main(
    pipe: Connection, caller_pid: int, rank: int, ranks: int, packed: PackedJob
) -> None:
    _die_with(caller_pid)
    outbox = _Outbox(pipe, rank, ranks)
    try:
        job = packed.unpack()
        comm = job.join(rank)
        assert comm is not None  # nobody asks it to give up
        with comm, _telling_first(outbox, comm):
            result = job.fn(comm, *job.args)
        outbox.send_result(result)
    except BaseException as error:
        outbox.send_error(error)
        if isinstance(error, SystemExit):
            raise  # ends the process with its code


def _die_with(caller_pid: int) -> None:
    """Be killed when the thread dies that started this process; it waits for this process."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != caller_pid:  # it died before
        os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def _telling_first(outbox: _Outbox, comm: Communicator) -> Iterator[None]:
    """Send an exception before the other ranks can see, and report, what it does to them."""
    try:
        yield
    except BaseException as error:
        outbox.send_error(error)
        comm.abort()
        raise


class _Failure(NamedTuple):
    time_s: float
    error: BaseException


class _Rank:
    """A rank's process and the pipe from it."""

    def __init__(self, process: BaseProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe
        # multiprocessing waits for the end of a pipe, which children of the rank keep open.
        self.pidfd: int | None = None
        with contextlib.suppress(OSError):
            self.pidfd = os.pidfd_open(process.pid or 0)

    def await_end(self, timeout_s: float | None) -> None:
        if self.pidfd is None:
            self.process.join(timeout_s)
        else:
            wait([self.pidfd], timeout_s)

    def how_it_ended(self) -> str:
        self.await_end(_TERMINATE_S)
        code = self.process.exitcode
        if code is None:
            # Where SIGCHLD is ignored the system keeps no code.
            return "ended, or closed its pipe,"
        return f"was killed by {_signal_name(-code)}" if code < 0 else f"exited with code {code}"

    def close(self) -> None:
        self.pipe.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
        self.process.join()
        if self.process.exitcode is None:
            # It has ended, and where SIGCHLD is ignored multiprocessing never learns of that.
            popen: Any = getattr(self.process, "_popen", None)
            popen.returncode = 0
        self.process.close()


class _Ranks:
    """Processes that run one function each, and what has come back from them."""

    def __init__(self, job: Job) -> None:
        self.results: list[Any] = [None] * job.ranks
        self.running: dict[int, _Rank] = {}  # whose outcome has not come
        self._started: list[_Rank] = []

    def start(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        packed = PackedJob(job)
        for rank in range(job.ranks):
            here, there = context.Pipe(duplex=False)
            try:
                process = context.Process(
                    target=_process_main,
                    args=(there, os.getpid(), rank, job.ranks, packed),
                    name=f"rank {rank}",
                    daemon=False,  # those of daemons may not have children
                )
                process.start()
            except BaseException:
                here.close()
                raise
            finally:
                there.close()
            self.running[rank] = _Rank(process, here)
            self._started.append(self.running[rank])

    def take(self, timeout_s: float | None) -> list[_Failure]:
        """Wait for outcomes; the failures among them."""
        events: dict[Any, int] = {}
        for rank, its in self.running.items():
            events[its.pipe] = rank
            if its.pidfd is not None:
                events[its.pidfd] = rank
        ready = sorted({events[event] for event in wait(list(events), timeout_s)})
        failures = [self._take(rank) for rank in ready]
        return [failure for failure in failures if failure is not None]

    def _take(self, rank: int) -> _Failure | None:
        its = self.running.pop(rank)
        ranks = len(self.results)
        try:
            if not its.pipe.poll():
                raise EOFError
            outcome = _Outcome(*pickle.loads(its.pipe.recv_bytes()))
        except (EOFError, OSError):
            # Whatever other ranks say of it came later.
            how = its.how_it_ended()
            return _Failure(-math.inf, ended(rank, ranks, its.process.pid, how))
        value, problem = None, outcome.problem
        if not problem:
            try:
                value = pickle.loads(outcome.packed)
            except Exception as refusal:
                problem = f"cannot be read back ({refusal!r})"
        if not problem and not outcome.is_error:
            self.results[rank] = value
            return None
        if problem or not isinstance(value, BaseException):
            what = "error" if outcome.is_error else "result"
            value = TypeError(f"the {what} of rank {rank} {problem}: {outcome.text}")
        return _Failure(outcome.time_s, named(value, rank, ranks, outcome.text))

    def end(self, grace_s: float | None) -> None:
        """End all processes within grace_s + 1 s; None: wait until they have ended."""
        until = time.monotonic() + (grace_s or 0.0)
        for rank in self._started:
            rank.await_end(None if grace_s is None else max(0.0, until - time.monotonic()))
        for rank in self._started:
            rank.process.terminate()
        until = time.monotonic() + _TERMINATE_S
        for rank in self._started:
            rank.await_end(max(0.0, until - time.monotonic()))
            rank.process.kill()
        for rank in self._started:
            rank.close()
        self._started.clear()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
