"""Ranks that are threads of this process."""

from __future__ import annotations

import contextlib
import threading
import traceback
from typing import TYPE_CHECKING, Any

from sennit import _core
from sennit.rank_job import ended, exit_text, named

if TYPE_CHECKING:
    from sennit.communicator import Communicator
    from sennit.rank_job import Job


class _Ranks:
    """Results and the first error of ranks that are threads."""

    def __init__(self, job: Job) -> None:
        self.results: list[Any] = [None] * job.ranks
        self.error: BaseException | None = None
        self.is_over = False
        self._job = job
        self._comms: list[Communicator] = []
        self._lock = threading.Lock()

    def end(self) -> None:
        """End the joining and the calls of all ranks."""
        self.is_over = True
        for comm in self._comms:
            with contextlib.suppress(_core.Error):
                comm.abort()

    def run(self, rank: int) -> None:
        """Be a rank."""
        try:
            comm = self._job.join(rank, lambda: self.is_over)
            if comm is None:
                return
            with comm:
                self._comms.append(comm)
                try:
                    if not self.is_over:
                        self.results[rank] = self._job.fn(comm, *self._job.args)
                except BaseException as error:
                    self._keep_first(error, rank)
                    comm.abort()
        except BaseException as error:
            self._keep_first(error, rank)
            self.is_over = True  # those that still join wait for a rank that never comes

    def _keep_first(self, error: BaseException, rank: int) -> None:
        trace = traceback.format_exc()
        if isinstance(error, SystemExit):
            error = ended(rank, self._job.ranks, None, exit_text(error))
        with self._lock:
            if self.error is None:
                self.error = named(error, rank, self._job.ranks, trace)


def run(job: Job) -> list[Any]:
    """Run the job on threads; its results by rank."""
    state = _Ranks(job)
    started: list[threading.Thread] = []
    try:
        for rank in range(job.ranks):
            thread = threading.Thread(target=state.run, args=(rank,), name=f"rank {rank}")
            thread.daemon = True  # a rank that computes on must not keep the program from ending
            thread.start()
            started.append(thread)
        for thread in started:
            thread.join()
    except BaseException:  # the system refuses a thread, or Ctrl-C
        state.end()
        raise
    if state.error is not None:
        raise state.error
    return state.results
