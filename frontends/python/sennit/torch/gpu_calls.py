"""Calls on tensors in GPU memory: on PyTorch's current stream, or on a stream of the group.

What is synchronous is on the current stream. What is asynchronous is on a stream of the group,
behind the work that the current stream has then, and `wait` orders the current stream behind it.
"""

from __future__ import annotations

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

    def __init__(self, stream: torch.cuda.Stream) -> None:
        """Remember the stream."""
        self.stream = stream


class Gpu:
    """The GPU ranks of a group, with the names of the calls that `sennit.Communicator` has."""

    def __init__(self, comm: sennit.Communicator) -> None:
        """Make calls of these ranks."""
        self.comm = comm
        self.device = torch.device(comm.device)
        self._side = torch.cuda.Stream(self.device)
        self._messages: list[tuple[str, torch.Tensor, int, Enqueued]] = []

    def starter(self, opts: Any) -> _Starter:
        """What makes the calls of an operation; with options that say nothing it is not awaited."""
        self.make_messages()
        current = torch.cuda.current_stream(self.device)
        return _Starter(self.comm, self._side if getattr(opts, "asyncOp", True) else current)

    def message(self, name: str, tensor: torch.Tensor, peer: int) -> Enqueued:
        """Post a send or recv.

        It is made with all others that are posted before one of them is waited for, or before the
        next collective, as one group: sends and recvs may need each other.
        """
        self._side.wait_stream(torch.cuda.current_stream(self.device))
        posted = Enqueued(self._side)
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

    def __init__(self, comm: sennit.Communicator, stream: torch.cuda.Stream) -> None:
        self._comm = comm
        self._stream = stream

    def __getattr__(self, name: str) -> Callable[..., Enqueued]:
        call = getattr(self._comm, name)

        def enqueue(*arguments: Any, **options: Any) -> Enqueued:
            current = torch.cuda.current_stream(self._stream.device)
            if current != self._stream:
                self._stream.wait_stream(current)
                for argument in arguments:
                    if isinstance(argument, torch.Tensor):
                        argument.record_stream(self._stream)
            call(*arguments, stream=self._stream, **options)
            return Enqueued(self._stream)

        return enqueue


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
        self._outputs = list(outputs)
        self._finish = finish
        self._event: torch.cuda.Event | None = None
        if not are_messages:
            self._enqueue_end()

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
        event = self._enqueue_end()
        torch.cuda.current_stream(self._gpu.device).wait_event(event)
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
