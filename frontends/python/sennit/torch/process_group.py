"""Process groups of torch.distributed over a communicator."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from sennit import InvalidArgument, Unsupported, group
from sennit.torch.gpu_calls import Enqueued, Gpu, GpuCalls
from sennit.torch.overloads import takes_timeouts
from sennit.torch.rendezvous import join
from sennit.torch.tensors import (
    checked,
    checked_list,
    deadline_of,
    hand_back,
    hand_out,
    in_order,
    in_order_list,
    joined,
    listed,
    only,
    operator_of,
    room_for,
    root_of,
)
from sennit.torch.undisturbed import undisturbed
from sennit.torch.works import Calls, Held

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Sequence

    from sennit import Config
    from sennit.starter import Starter

    Tensors = Sequence[torch.Tensor]


@takes_timeouts
class ProcessGroup(dist.ProcessGroup):
    """The ranks of a group. Made by `init_process_group("sennit")` and `new_group`.

    PyTorch knows the methods by these names; programs call the functions of torch.distributed.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: datetime.timedelta,
        settings: Config | None = None,
    ) -> None:
        """Join the ranks that have the same store; called by all of them.

        Raises:
            JoinTimeout: They did not all come in time; ranks of other machines never do.
        """
        super().__init__(rank, size)
        self._join = functools.partial(join, store, rank, size, timeout, settings=settings)
        self._comm = self._join("host")
        self._gpu: Gpu | None = None
        self._group_name = ""
        self._group_desc = ""
        self._held = Held()

    # What a group is. PyTorch asks the backends that it has registered for a group, and a group in
    # Python has none: what they would say is said here.

    def getBackendName(self) -> str:
        """The name of the backend."""
        return "sennit"

    def name(self) -> str:
        """The name of the backend, as Python asks for it."""
        return "sennit"

    def setGroupName(self, name: str) -> None:
        """Take the name by which PyTorch finds the group."""
        self._group_name = name

    def getGroupName(self) -> str:
        """The name by which PyTorch finds the group."""
        return self._group_name

    def setGroupDesc(self, description: str) -> None:
        """Take what PyTorch says of the group."""
        self._group_desc = description

    def getGroupDesc(self) -> str:
        """What PyTorch says of the group."""
        return self._group_desc

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), torch.device("cuda")]

    def _get_backend(self, device: torch.device) -> Any:
        """The group itself, which is its own backend."""
        is_ours = torch.device(device).type in ("cpu", "cuda")
        return self if is_ours else super()._get_backend(device)

    def abort(self) -> None:
        """End all waiting, here and on the other ranks."""
        self._comm.abort()
        if self._gpu is not None:
            self._gpu.comm.abort()

    def shutdown(self) -> None:
        """Leave the group."""
        if self._gpu is not None:
            self._gpu.make_messages()
            self._gpu.comm.destroy()
        self._comm.destroy()
        self._held.release()

    @functools.cached_property
    def _start(self) -> Starter:
        """The calls; found at the first of them, when PyTorch has told of what the group is a part.

        Raises:
            Unsupported: The group was to have another backend for other devices. PyTorch gives the
                whole group to a backend that is written in Python, and says nothing.
        """
        try:
            backends = dist.get_backend_config(self)
        except (TypeError, ValueError):  # a group that its caller made
            return self._comm.start
        if len({one.partition(":")[2] for one in backends.split(",")}) > 1:
            raise Unsupported(
                f"the group was made with the backends '{backends}', and PyTorch gives it the "
                "backend sennit alone: make a group of the other backend, and beside it "
                'torch.distributed.new_group(backend="sennit")'
            )
        return self._comm.start

    def _of(self, tensor: torch.Tensor, opts: Any = None) -> Any:
        """The calls for tensors of the device of this one.

        GPU ranks join at the first call on a tensor in GPU memory, which all ranks have to make.
        """
        if tensor.device.type == "cpu":
            return self._start
        return self._gpu_of(tensor).starter(opts)

    def _gpu_of(self, tensor: torch.Tensor) -> Gpu:
        if self._gpu is None:
            _ = self._start  # raises for groups of several backends
            self._gpu = Gpu(self._join(str(tensor.device)))
        return self._gpu

    def _calls(
        self,
        works: Sequence[Any],
        outputs: Tensors = (),
        finish: Callable[[], None] | None = None,
    ) -> Calls | GpuCalls:
        if works and isinstance(works[0], Enqueued):
            assert self._gpu is not None
            calls = GpuCalls(self._gpu, works, outputs, finish)
            # Who makes a synchronous call waits for it before anything else can ask.
            return self._held.hold(calls) if works[0].is_aside else calls
        return self._held.hold(Calls(works, outputs, finish))

    def _calls_in_order(
        self, works: Sequence[Any], buffers: Tensors, tensors: Tensors
    ) -> Calls | GpuCalls:
        """Calls that write buffers of in_order, which are copied back at the end."""
        return self._calls(works, tensors, lambda: hand_back(buffers, tensors))

    # Collectives of one tensor.

    @undisturbed
    def broadcast(
        self, tensors: Tensors | torch.Tensor, opts: Any = None, root: int | None = None
    ) -> Calls | GpuCalls:
        """Overwrite the tensor by that of the root."""
        tensors = listed(tensors)
        source = root_of(opts if root is None else root)
        buffer = in_order(only(tensors))
        return self._calls_in_order(
            [self._of(buffer, opts).broadcast(buffer, source, deadline_s=deadline_of(opts))],
            [buffer],
            tensors,
        )

    @undisturbed
    def allreduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> Calls | GpuCalls:
        """Combine the tensors of all ranks, in place."""
        return self.allreduce_coalesced([only(listed(tensors))], opts)

    @undisturbed
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Calls | GpuCalls:
        """Combine each tensor with those of the other ranks, in place."""
        op = operator_of(opts)
        buffers = in_order_list(tensors)
        start = self._of(buffers[0], opts) if buffers else self._start
        if len(buffers) == 1:
            work = start.all_reduce(buffers[0], buffers[0], op=op, deadline_s=deadline_of(opts))
            return self._calls_in_order([work], buffers, tensors)
        with group():
            works = [
                start.all_reduce(buffer, buffer, op=op, deadline_s=deadline_of(opts))
                for buffer in buffers
            ]
        return self._calls_in_order(works, buffers, tensors)

    @undisturbed
    def reduce(self, tensors: Tensors, opts: Any = None) -> Calls | GpuCalls:
        """Combine the tensors of all ranks, in place at the root."""
        buffer = in_order(only(tensors))
        work = self._of(buffer, opts).reduce(
            buffer, buffer, op=operator_of(opts), root=root_of(opts), deadline_s=deadline_of(opts)
        )
        return self._calls_in_order([work], [buffer], tensors)

    @undisturbed
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Calls | GpuCalls:
        """Give the tensors of all ranks to all, one after the other."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    @undisturbed
    def all_gather_single_coalesced(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any = None,
    ) -> Calls | GpuCalls:
        """Several calls of all_gather_single at once."""
        pairs = [(checked(x), out) for x, out in zip(inputs, checked_list(outputs), strict=True)]
        start = self._of(pairs[0][0], opts) if pairs else self._start
        with group():
            works = [start.all_gather(x, out, deadline_s=deadline_of(opts)) for x, out in pairs]
        return self._calls(works, outputs)

    @undisturbed
    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Calls | GpuCalls:
        """Combine the tensors of all ranks and give each its part."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    @undisturbed
    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Calls | GpuCalls:
        """Several calls of reduce_scatter_single at once."""
        op = operator_of(opts)
        # Parts are parts of the memory here, whatever the shapes are.
        pairs = [
            (checked(x).reshape(-1), out)
            for x, out in zip(inputs, checked_list(outputs), strict=True)
        ]
        start = self._of(pairs[0][0], opts) if pairs else self._start
        with group():
            works = [
                start.reduce_scatter(x, out, op=op, deadline_s=deadline_of(opts))
                for x, out in pairs
            ]
        return self._calls(works, outputs)

    @undisturbed
    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any = None,
    ) -> Calls | GpuCalls:
        """Give each rank its rows, and get some from each; no splits: the same number for all."""
        x, out = checked(tensor), checked(output)
        if not output_splits and not input_splits:
            work = self._of(x, opts).all_to_all(
                x.reshape(-1), out.reshape(-1), deadline_s=deadline_of(opts)
            )
            return self._calls([work], [output])
        sent = self._elements(x, input_splits)
        received = self._elements(out, output_splits)
        work = self._of(x, opts).all_to_all_v(
            x.reshape(-1), sent, received, out.reshape(-1), deadline_s=deadline_of(opts)
        )
        return self._calls([work], [output])

    @undisturbed
    def barrier(self, opts: Any = None) -> Calls | GpuCalls:
        """Wait for all ranks, and for the work that their current streams have."""
        if self._gpu is not None:
            self._gpu.make_messages()
            torch.cuda.current_stream(self._gpu.device).synchronize()
        return self._calls([self._start.barrier(deadline_s=deadline_of(opts))])

    # Collectives of lists of tensors, which lie anywhere: they go through one buffer.

    @undisturbed
    def allgather(
        self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any = None
    ) -> Calls | GpuCalls:
        """Give the tensors of all ranks to all."""
        return self.allgather_coalesced([[out] for out in only(output_lists)], tensors, opts)

    @undisturbed
    def allgather_coalesced(
        self,
        output_lists: Sequence[Tensors],
        tensors: Tensors,
        opts: Any = None,
    ) -> Calls | GpuCalls:
        """Give all tensors of all ranks to all: output_lists[r] are those of rank r."""
        outputs = [out for outs in output_lists for out in outs]
        flat = room_for(outputs)
        work = self._of(flat, opts).all_gather(joined(tensors), flat, deadline_s=deadline_of(opts))
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    @undisturbed
    def gather(
        self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any = None
    ) -> Calls | GpuCalls:
        """Give the tensors of all ranks to the root."""
        root = root_of(opts)
        x = checked(only(tensors))
        if self.rank() != root:
            return self._calls(
                [self._of(x, opts).gather(x, root=root, deadline_s=deadline_of(opts))]
            )
        outputs = only(output_lists)
        flat = room_for(outputs)
        work = self._of(x, opts).gather(x, flat, root=root, deadline_s=deadline_of(opts))
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    @undisturbed
    def scatter(
        self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any = None
    ) -> Calls | GpuCalls:
        """Give each rank its tensor of the root's list."""
        root = root_of(opts)
        x = joined(only(input_lists)) if self.rank() == root else None
        out = checked(only(outputs))
        return self._calls(
            [self._of(out, opts).scatter(x, out, root=root, deadline_s=deadline_of(opts))],
            outputs,
        )

    @undisturbed
    def reduce_scatter(
        self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any = None
    ) -> Calls | GpuCalls:
        """Combine the lists of all ranks and give each rank its tensor; sizes may differ."""
        inputs = only(input_lists)
        if len({tensor.numel() for tensor in inputs}) == 1:
            return self.reduce_scatter_single(only(outputs), joined(inputs), opts)
        if len(inputs) != self.size():
            raise InvalidArgument(f"{len(inputs)} tensors cannot go to {self.size()} ranks")
        op = operator_of(opts)
        out = checked(only(outputs))
        start = self._of(out, opts)
        with group():
            works = [
                start.reduce(
                    checked(x),
                    out if root == self.rank() else None,
                    op=op,
                    root=root,
                    deadline_s=deadline_of(opts),
                )
                for root, x in enumerate(inputs)
            ]
        return self._calls(works, outputs)

    @undisturbed
    def alltoall(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any = None,
    ) -> Calls | GpuCalls:
        """Give each rank its tensor of the list, and get one from each; sizes may differ."""
        flat = room_for(outputs)
        sent = [tensor.numel() for tensor in inputs]
        received = [tensor.numel() for tensor in outputs]
        work = self._of(flat, opts).all_to_all_v(
            joined(inputs), sent, received, flat, deadline_s=deadline_of(opts)
        )
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    # Messages.

    @undisturbed
    def send(self, tensors: Tensors, peer: int, tag: int) -> Calls | GpuCalls:
        """Send a tensor."""
        _refuse_tag(tag)
        buffer = in_order(only(tensors))
        if buffer.device.type != "cpu":
            return self._message("send", buffer, peer)
        return self._calls([self._start.send(buffer, peer)])

    @undisturbed
    def recv(self, tensors: Tensors, peer: int, tag: int) -> Calls | GpuCalls:
        """Receive a tensor."""
        _refuse_tag(tag)
        buffer = in_order(only(tensors))
        if buffer.device.type != "cpu":
            return self._message(
                "recv", buffer, peer, tensors, lambda: hand_back([buffer], tensors)
            )
        return self._calls_in_order([self._start.recv(buffer, peer)], [buffer], tensors)

    def _message(
        self,
        name: str,
        buffer: torch.Tensor,
        peer: int,
        outputs: Tensors = (),
        finish: Callable[[], None] | None = None,
    ) -> GpuCalls:
        gpu = self._gpu_of(buffer)
        posted = gpu.message(name, buffer, peer)
        return self._held.hold(GpuCalls(gpu, [posted], outputs, finish, are_messages=True))

    @undisturbed
    def recv_anysource(self, tensors: Tensors, tag: int) -> Calls | GpuCalls:  # noqa: ARG002
        """Refuse: a message has a sender."""
        raise Unsupported("the backend sennit receives from a rank that is named: pass src")

    # Older names of the same.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _elements(self, tensor: torch.Tensor, splits: Sequence[int]) -> list[int]:
        """Rows for each rank, in elements; no splits: the same number for all."""
        rows = tensor.shape[0] if tensor.dim() > 0 else 1
        if not splits:
            if rows % self.size():
                raise InvalidArgument(f"{rows} rows cannot be split evenly by {self.size()} ranks")
            splits = [rows // self.size()] * self.size()
        if sum(splits) != rows:
            raise InvalidArgument(f"the splits add up to {sum(splits)}, the tensor has {rows} rows")
        row = tensor.numel() // rows if rows else 0
        return [split * row for split in splits]


def _refuse_tag(tag: int) -> None:
    if tag != 0:
        raise Unsupported(
            f"the backend sennit has no tags, here {tag}: messages of two ranks arrive in order"
        )
