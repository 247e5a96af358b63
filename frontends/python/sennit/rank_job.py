"""What the ranks of one `spawn` have in common, be they processes or threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sennit import _core
from sennit.communicator import Communicator
from sennit.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NAME = "spawn"


class RemoteTraceback(Exception):
    """Cause of an exception that came from a rank: which one, and its traceback as text."""


class Job(NamedTuple):
    """A function, and the ranks that run it."""

    fn: Callable[..., Any]
    args: Sequence[Any]
    ranks: int
    key: str
    timeout_s: float | None
    deadline_s: float | None
    device: str | None = None

    def join(self, rank: int, give_up: Callable[[], bool] | None = None) -> Communicator | None:
        """Join the other ranks; None when `give_up` says True before they have come."""
        device = f"cuda:{rank}" if self.device == "cuda" else self.device
        config = Config().core(_NAME, self.timeout_s, self.deadline_s, device)
        handle = _core.init_rank(rank, self.ranks, self.key, config, give_up)
        return None if handle is None else Communicator(handle, _NAME, config)


def named(error: BaseException, rank: int, ranks: int, trace: str) -> BaseException:
    """The error, with its rank and traceback as the cause."""
    error.__cause__ = RemoteTraceback(f"raised by rank {rank} of {ranks}\n{trace}")
    return error


def ended(rank: int, ranks: int, pid: int | None, how: str) -> _core.RankFailed:
    """The error for a rank that ended without a result."""
    who = f"rank {rank} of {ranks}" + (f" (pid {pid})" if pid else "")
    # Its own message, such as that of multiprocessing where the guard lacks, is on standard error.
    advice = (
        '. Next: see what it printed; a program calls spawn below `if __name__ == "__main__":`'
        if how.startswith("exited")
        else ""
    )
    error = _core.RankFailed(f"{who} {how} before it had returned a result{advice}")
    error.blamed_ranks = (rank,)
    error.size = ranks
    error.evidence = how
    return error


def exit_text(error: SystemExit) -> str:
    """What sys.exit does to a process, in words."""
    if error.code is None or isinstance(error.code, int):
        return f"exited with code {error.code or 0}"
    return f"exited with code 1 ({error.code})"
