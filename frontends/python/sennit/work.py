"""Calls on their way: works that can be waited for, and groups of calls that start together."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import TYPE_CHECKING, Any

from sennit import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sennit.calls import Prepared


class Work:
    """A call that was started; it keeps its buffers alive until it has ended.

    Do not write the input or use the output before then. The call has ended when `wait` returns,
    or raises anything but `InProgress`. Host ranks make progress inside calls of this library only:
    a work that nobody waits for or tests may stand still. A call of a GPU rank goes on by itself,
    and its work is an event behind it in its stream; one that is dropped is not waited for. A work
    may outlive its communicator.
    """

    def __init__(self, work: _core.Work, result: Any) -> None:
        """Wrap a call whose result, once it has ended, is `result`."""
        self._work = work
        self._result = result

    def wait(self, timeout_s: float | None = None) -> Any:
        """Wait for the end of the call.

        Args:
            timeout_s: Seconds to wait at most; None: no limit but the deadline of the call.

        Returns:
            What the blocking form of the call returns.

        Raises:
            InProgress: The call has not ended in this time; it may be waited for again.
            Error: The call has failed. It has ended, and its output is undefined.
            KeyboardInterrupt: Ctrl-C; the communicator has been aborted.
        """
        if timeout_s is not None and math.isnan(timeout_s):
            raise _core.InvalidArgument("a wait of nan seconds is none; pass None for no limit")
        if not self._work.wait(-1.0 if timeout_s is None else max(timeout_s, 0.0)):
            raise _core.InProgress(f"the call has not ended after {timeout_s} s")
        return self._result

    def test(self) -> bool:
        """Make some progress; True when the call has ended (`wait` says how)."""
        return self._work.test()

    @property
    def peer(self) -> int:
        """The other rank of a send or recv that was waited for.

        Raises:
            InProgress: It was not waited for.
            InvalidUsage: The call is no send or recv.
        """
        return self._work.peer()


class _OpenGroup(threading.local):
    """The calls that the group of this thread has collected; depth 0 is no group."""

    def __init__(self) -> None:
        self.depth = 0
        self.started: list[_core.Work] = []
        self.awaited: list[_core.Work] = []


_open_group = _OpenGroup()


def run(prepared: Prepared) -> Any:
    """Make a call, and wait for it on host ranks; inside a group, leave that to its end.

    Returns:
        The result of the call, which is there when the call has ended.
    """
    work, result = prepared
    if _open_group.depth:
        _open_group.started.append(work)
        if not work.is_ended_by_stream():
            _open_group.awaited.append(work)
    else:
        work.run()
    return result


def run_equal(
    handle: _core.Comm,
    collective: _core.Collective,
    x: Any,
    out: Any,
    op: Any,
    root: int,
    options: _core.CallOptions,
) -> Any:
    """As `run`, a call whose blocks have one length."""
    if _open_group.depth:
        return run(_core.prepare(handle, collective, x, out, op, root, options))
    return _core.run(handle, collective, x, out, op, root, options)


def start(prepared: Prepared) -> Work:
    """Start a call; inside a group it starts at the end of the group."""
    work, result = prepared
    if _open_group.depth:
        _open_group.started.append(work)
    else:
        work.start()
    return Work(work, result)


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Make all calls of the `with` block together, at its end.

    Sends and recvs that need each other belong in one group. On different ranks the calls may be
    posted in any order, as long as the collectives of one communicator, and the sends to (recvs
    from) one peer with one tag, are in the same order. Groups nest: the outermost end makes the
    calls. Results are ready after the block; where the block raises, none of its calls is made.

    Raises:
        Error: One of the calls failed.
        KeyboardInterrupt: Ctrl-C; the communicators that were waited for have been aborted.
    """
    _open_group.depth += 1
    try:
        yield
    except BaseException:
        _open_group.started.clear()
        _open_group.awaited.clear()
        raise
    finally:
        _open_group.depth -= 1
    if _open_group.depth == 0:
        started, awaited = _open_group.started, _open_group.awaited
        _open_group.started, _open_group.awaited = [], []
        _core.start_group(started)
        for work in awaited:
            work.wait(-1.0)
