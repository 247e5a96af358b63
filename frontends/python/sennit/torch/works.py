"""Calls on their way, as torch.distributed knows them."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, TypeVar

import torch
from torch.distributed import Work

from sennit import Error, InProgress
from sennit.torch.undisturbed import undisturbed

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Sequence

    import sennit
    from sennit.torch.gpu_calls import GpuCalls

AnyCalls = TypeVar("AnyCalls", bound="Calls | GpuCalls")


class Held:
    """Works of a group that C++ may still ask for something.

    It knows of the methods of `Calls` only as long as there is the object in Python, which it does
    not keep: without it a wait there would be without end.
    """

    _RUNNING_COUNT = 64
    _ENDED_COUNT = 16
    _ENDED_BYTES = 1 << 20

    def __init__(self) -> None:
        """Hold none."""
        self._running: list[Calls | GpuCalls] = []
        self._ended: deque[Calls | GpuCalls] = deque(maxlen=self._ENDED_COUNT)

    def hold(self, calls: AnyCalls) -> AnyCalls:
        """Hold a work until it has ended, and then for a while unless its outputs are large."""
        running = []
        for held in self._running:
            if not held.has_ended():
                running.append(held)
            elif held.output_bytes() <= self._ENDED_BYTES:
                self._ended.append(held)
        if len(running) >= self._RUNNING_COUNT:  # most of which nobody waits for
            running = [held for held in running if not held.test()]
        self._running = [*running, calls]
        return calls

    def release(self) -> None:
        """Hold none any more."""
        self._running.clear()
        self._ended.clear()


class Calls(Work):
    """Started calls of Sennit that are one operation of PyTorch.

    Progress is made inside calls only: while one is waited for, all go on.
    """

    def __init__(
        self,
        works: Sequence[sennit.Work],
        outputs: Sequence[torch.Tensor] = (),
        finish: Callable[[], None] | None = None,
    ) -> None:
        """Wrap calls.

        Args:
            works: The calls.
            outputs: What the operation has as its result.
            finish: What remains to be done when the calls have ended.
        """
        super().__init__()
        self._works = list(works)
        self._outputs = list(outputs)
        self._finish = finish
        self._error: Error | None = None

    def test(self) -> bool:
        """Make some progress; whether the calls have ended."""
        return all(work.test() for work in self._works)

    def has_ended(self) -> bool:
        """Whether it has been waited for, or has failed."""
        return self._error is not None or (not self._works and self._finish is None)

    def output_bytes(self) -> int:
        """Memory of the outputs."""
        return sum(tensor.nbytes for tensor in self._outputs)

    @undisturbed
    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait for the end, at most so long (zero: until the deadline of the group)."""
        seconds = timeout.total_seconds() if timeout else 0.0
        until = time.monotonic() + seconds
        try:
            while self._works:
                self._works[0].wait(max(until - time.monotonic(), 0.0) if seconds else None)
                self._works.pop(0)
        except InProgress:
            raise  # it goes on, and may be waited for again
        except Error as error:
            self._error = error
            raise
        if self._finish is not None:
            finish, self._finish = self._finish, None
            finish()
        return True

    @undisturbed
    def is_completed(self) -> bool:
        """Make some progress; whether the operation has ended."""
        return self.test() and self.wait()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._error is None and self.is_completed()

    def exception(self) -> Error | None:
        """Why it failed; None if it did not."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The outputs of an operation that has ended."""
        return self._outputs

    @undisturbed
    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future that is done.

        Nothing in this process would make progress for whoever waits for a future, so this waits
        before it gives one.
        """
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self.wait()
        future.set_result(self._outputs)
        return future
