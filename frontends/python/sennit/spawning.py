"""`spawn`: ranks as processes or threads of one call."""

from __future__ import annotations

import operator
import secrets
from typing import TYPE_CHECKING, Any

from sennit import _core, rank_processes, rank_threads
from sennit.rank_job import Job

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_RANKS = 4096
"""That can join each other."""


def spawn(
    fn: Callable[..., Any],
    ranks: int,
    *args: Any,
    device: str | None = None,
    threads: bool = False,
    timeout_s: float | None = None,
    deadline_s: float | None = None,
) -> list[Any]:
    """Run `fn(comm, *args)` on new ranks and wait for all of them.

    Ranks are processes that start afresh: `fn` must be importable and, like `args` and results,
    picklable; a script that calls this needs `if __name__ == "__main__"`. With `threads` they are
    threads of this process, which suits tests and needs nothing to be picklable.

    Each process gets copies of `args` and may start processes of its own. A process has ended when
    its exit handlers and the children that it joins have. When the caller dies, the processes die.

    Args:
        fn: Called once a rank with its communicator, which is destroyed when `fn` returns.
        ranks: Number of ranks, from 1 to 4096.
        *args: Passed on.
        device: Where the buffers of the ranks are: "host" (or "cpu"); "cuda", which gives rank r
            the GPU r; or "cuda:1", which gives all ranks that GPU. None: SENNIT_DEVICE, else
            "host". The function finds it in `comm.device`.
        threads: Threads instead of processes.
        timeout_s: As in `init`.
        deadline_s: As in `init`.

    Returns:
        The results by rank.

    Raises:
        InvalidUsage: New processes cannot import `fn`, or a function or class in `args`. Nothing
            has been started.
        RankFailed: A rank ended without a result: it was killed, or called sys.exit or os._exit.
            `blamed_ranks` names it.
        TypeError: A result or an exception cannot be pickled or read back; its text and traceback
            are in the message.
        OSError: The system refuses to start a process (RuntimeError: a thread).
        BaseException: The first exception of a rank; its `__cause__` has the rank and its
            traceback. On every exception the other ranks are ended before it is raised: processes
            within 4 s, also where they ignore signals; threads as soon as they are in a call.
    """
    ranks = operator.index(ranks)
    if not 1 <= ranks <= MOST_RANKS:
        raise _core.InvalidArgument(
            f"spawn needs at least one rank and takes at most {MOST_RANKS}, not {ranks}"
        )
    key = f"spawn-{secrets.token_hex(16)}"
    job = Job(fn, args, ranks, key, timeout_s, deadline_s, device)
    return rank_threads.run(job) if threads else rank_processes.run(job)
