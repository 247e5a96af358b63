"""Calls on tensors in GPU memory: on PyTorch's current stream, or on a stream of the group.

What is synchronous is on the current stream. What is asynchronous is on a stream of the group,
behind the work that the current stream has then, and `wait` orders the current stream behind it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import Work

from sennit import group
from sennit.torch.undisturbed import undisturbed

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Sequence

    import sennit


class Enqueued:
    """A call that is enqueued on a stream, in the place of a `sennit.Work`."""

    __slots__ = ("is_aside", "stream")

    def __init__(self, stream: torch.cuda.Stream | None, *, is_aside: bool) -> None:
        """Remember the stream, None for the current one, and whether it is the group's."""
        self.stream = stream
        self.is_aside = is_aside


class Gpu:
    """The GPU ranks of a group, with the names of the calls that `sennit.Communicator` has."""

    def __init__(self, comm: sennit.Communicator) -> None:
        """Make calls of these ranks."""
        self.comm = comm
        self.device = torch.device(comm.device)
        self.side = torch.cuda.Stream(self.device)
        self._messages: list[tuple[str, torch.Tensor, int, Enqueued]] = []

    def starter(self, opts: Any) -> _Starter:
        """What makes the calls of an operation; with options that say nothing it is not awaited."""
        self.make_messages()
        return _Starter(self, is_aside=getattr(opts, "asyncOp", True))

    def message(self, name: str, tensor: torch.Tensor, peer: int) -> Enqueued:
        """Post a send or recv.

        It is made with all others that are posted before one of them is waited for, or before the
        next collective, as one group: sends and recvs may need each other.
        """
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        posted = Enqueued(self.side, is_aside=True)
        self._messages.append((name, tensor, peer, posted))
        return posted

    def make_messages(self) -> None:
        """Make the calls that are posted."""
        messages, self._messages = self._messages, []
        if messages:
            with group():
                for name, tensor, peer, posted in messages:
                    getattr(self.comm, name)(tensor, peer, stream=posted.stream)
                    tensor.record_stream(posted.stream)


class _Starter:
    """The calls of a communicator as `sennit.starter.Starter` has them, on one stream."""

    def __init__(self, gpu: Gpu, *, is_aside: bool) -> None:
        self._gpu = gpu
        self._is_aside = is_aside

    def __getattr__(self, name: str) -> Callable[..., Enqueued]:
        call = getattr(self._gpu.comm, name)
        return functools.partial(self._aside if self._is_aside else self._here, call)

    def _here(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Enqueued:
        call(*arguments, **options)  # which takes the current stream
        return Enqueued(None, is_aside=False)

    def _aside(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Enqueued:
        side = self._gpu.side
        side.wait_stream(torch.cuda.current_stream(self._gpu.device))
        for argument in arguments:
            if isinstance(argument, torch.Tensor):
                argument.record_stream(side)
        call(*arguments, stream=side, **options)
        return Enqueued(side, is_aside=True)


class GpuCalls(Work):
    """Enqueued calls that are one operation of PyTorch.

    Waiting makes the current stream wait, and the host does not, as with PyTorch's own `nccl`.
    """

    def __init__(
        self,
        gpu: Gpu,
        works: Sequence[Enqueued],
        outputs: Sequence[torch.Tensor],
        finish: Callable[[], None] | None,
        *,
        are_messages: bool = False,
    ) -> None:
        """Wrap calls; `finish` is enqueued behind them."""
        super().__init__()
        self._gpu = gpu
        self._stream = works[0].stream
        self._is_aside = works[0].is_aside
        self._outputs = list(outputs)
        self._finish = finish
        self._event: torch.cuda.Event | None = None
        self._is_captured = False
        if self._is_aside and not are_messages:
            self._enqueue_end()
        elif self._finish is not None and not are_messages:
            self._finish()  # on the current stream, as the calls are
            self._finish = None

    def _enqueue_end(self) -> torch.cuda.Event:
        if self._event is None:
            self._gpu.make_messages()
            with torch.cuda.stream(self._stream):
                if self._finish is not None:
                    self._finish()
                    self._finish = None
                self._is_captured = torch.cuda.is_current_stream_capturing()
                self._event = torch.cuda.Event()
                self._event.record()
        return self._event

    def test(self) -> bool:
        """Whether the calls have ended; those of a graph are never asked."""
        event = self._enqueue_end()
        return self._is_captured or bool(event.query())

    def has_ended(self) -> bool:
        """Whether nothing has to be done for the calls any more."""
        return self._event is not None

    def output_bytes(self) -> int:
        """Memory of the outputs."""
        return sum(tensor.nbytes for tensor in self._outputs)

    @undisturbed
    def wait(self, timeout: datetime.timedelta | None = None) -> bool:  # noqa: ARG002
        """Make the current stream wait for the end."""
        # A synchronous call is waited for on the stream that it is on.
        if self._is_aside:
            torch.cuda.current_stream(self._gpu.device).wait_event(self._enqueue_end())
        return True

    def synchronize(self) -> None:
        """Make the current stream wait for the end."""
        self.wait()

    @undisturbed
    def is_completed(self) -> bool:
        """Whether the operation has ended."""
        return self.test()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.test() and not self._gpu.comm.failed

    def exception(self) -> None:
        """None: a failure of GPU ranks is an exception of the next call."""
        return

    def result(self) -> list[torch.Tensor]:
        """The outputs, for work behind the operation."""
        return self._outputs

    @undisturbed
    def get_future(self) -> torch.futures.Future[list[torch.Tensor]]:
        """A future that is done, and whose callbacks run behind the operation."""
        self._enqueue_end()
        future: torch.futures.Future[list[torch.Tensor]] = torch.futures.Future(
            devices=[self._gpu.device]
        )
        with torch.cuda.stream(self._stream):
            future.set_result(self._outputs)
        return future
