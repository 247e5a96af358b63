"""Calls on their way, as torch.distributed knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.distributed import Work

from sennit import Error

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Sequence

    import sennit


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

    def wait(self, timeout: datetime.timedelta | None = None) -> bool:
        """Wait for the end, at most so long (zero: until the deadline of the group)."""
        seconds = timeout.total_seconds() if timeout else 0.0
        try:
            while self._works:
                self._works[0].wait(seconds or None)
                self._works.pop(0)
        except Error as error:
            self._error = error
            raise
        if self._finish is not None:
            finish, self._finish = self._finish, None
            finish()
        return True

    def is_completed(self) -> bool:
        """Make some progress; whether the operation has ended."""
        if not all(work.test() for work in self._works):
            return False
        return self.wait()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self._error is None and self.is_completed()

    def exception(self) -> Error | None:
        """Why it failed; None if it did not."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The outputs of an operation that has ended."""
        return self._outputs

    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future that is done.

        Nothing in this process would make progress for whoever waits for a future, so this waits
        before it gives one.
        """
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future()
        self.wait()
        future.set_result(self._outputs)
        return future
