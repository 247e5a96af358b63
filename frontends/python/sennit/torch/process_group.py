"""Process groups of torch.distributed over a communicator."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from sennit import InvalidArgument, Unsupported, group
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

    import sennit
    from sennit.starter import Starter

    Tensors = Sequence[torch.Tensor]


@takes_timeouts
class ProcessGroup(dist.ProcessGroup):
    """The ranks of a group. Made by `init_process_group("sennit")` and `new_group`.

    PyTorch knows the methods by these names; programs call the functions of torch.distributed.
    """

    def __init__(
        self, store: dist.Store, rank: int, size: int, timeout: datetime.timedelta
    ) -> None:
        """Join the ranks that have the same store; called by all of them.

        Raises:
            JoinTimeout: They did not all come in time; ranks of other machines never do.
        """
        super().__init__(rank, size)
        self._comm = join(store, rank, size, timeout)
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
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> Any:
        """The group itself, which is its own backend."""
        return self if torch.device(device).type == "cpu" else super()._get_backend(device)

    def abort(self) -> None:
        """End all waiting, here and on the other ranks."""
        self._comm.abort()

    def shutdown(self) -> None:
        """Leave the group."""
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

    def _calls(
        self,
        works: Sequence[sennit.Work],
        outputs: Tensors = (),
        finish: Callable[[], None] | None = None,
    ) -> Calls:
        return self._held.hold(Calls(works, outputs, finish))

    def _calls_in_order(
        self, works: Sequence[sennit.Work], buffers: Tensors, tensors: Tensors
    ) -> Calls:
        """Calls that write buffers of in_order, which are copied back at the end."""
        return self._calls(works, tensors, lambda: hand_back(buffers, tensors))

    # Collectives of one tensor.

    @undisturbed
    def broadcast(
        self, tensors: Tensors | torch.Tensor, opts: Any = None, root: int | None = None
    ) -> Calls:
        """Overwrite the tensor by that of the root."""
        tensors = listed(tensors)
        source = root_of(opts if root is None else root)
        buffer = in_order(only(tensors))
        return self._calls_in_order(
            [self._start.broadcast(buffer, source, deadline_s=deadline_of(opts))], [buffer], tensors
        )

    @undisturbed
    def allreduce(self, tensors: Tensors | torch.Tensor, opts: Any = None) -> Calls:
        """Combine the tensors of all ranks, in place."""
        return self.allreduce_coalesced([only(listed(tensors))], opts)

    @undisturbed
    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Calls:
        """Combine each tensor with those of the other ranks, in place."""
        op = operator_of(opts)
        buffers = in_order_list(tensors)
        with group():
            works = [
                self._start.all_reduce(buffer, buffer, op=op, deadline_s=deadline_of(opts))
                for buffer in buffers
            ]
        return self._calls_in_order(works, buffers, tensors)

    @undisturbed
    def reduce(self, tensors: Tensors, opts: Any = None) -> Calls:
        """Combine the tensors of all ranks, in place at the root."""
        buffer = in_order(only(tensors))
        work = self._start.reduce(
            buffer, buffer, op=operator_of(opts), root=root_of(opts), deadline_s=deadline_of(opts)
        )
        return self._calls_in_order([work], [buffer], tensors)

    @undisturbed
    def all_gather_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Calls:
        """Give the tensors of all ranks to all, one after the other."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    @undisturbed
    def all_gather_single_coalesced(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any = None,
    ) -> Calls:
        """Several calls of all_gather_single at once."""
        pairs = [(checked(x), out) for x, out in zip(inputs, checked_list(outputs), strict=True)]
        with group():
            works = [
                self._start.all_gather(x, out, deadline_s=deadline_of(opts)) for x, out in pairs
            ]
        return self._calls(works, outputs)

    @undisturbed
    def reduce_scatter_single(
        self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None
    ) -> Calls:
        """Combine the tensors of all ranks and give each its part."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    @undisturbed
    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Calls:
        """Several calls of reduce_scatter_single at once."""
        op = operator_of(opts)
        # Parts are parts of the memory here, whatever the shapes are.
        pairs = [
            (checked(x).reshape(-1), out)
            for x, out in zip(inputs, checked_list(outputs), strict=True)
        ]
        with group():
            works = [
                self._start.reduce_scatter(x, out, op=op, deadline_s=deadline_of(opts))
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
    ) -> Calls:
        """Give each rank its rows, and get some from each; no splits: the same number for all."""
        x, out = checked(tensor), checked(output)
        if not output_splits and not input_splits:
            work = self._start.all_to_all(
                x.reshape(-1), out.reshape(-1), deadline_s=deadline_of(opts)
            )
            return self._calls([work], [output])
        sent = self._elements(x, input_splits)
        received = self._elements(out, output_splits)
        work = self._start.all_to_all_v(
            x.reshape(-1), sent, received, out.reshape(-1), deadline_s=deadline_of(opts)
        )
        return self._calls([work], [output])

    @undisturbed
    def barrier(self, opts: Any = None) -> Calls:
        """Wait for all ranks."""
        return self._calls([self._start.barrier(deadline_s=deadline_of(opts))])

    # Collectives of lists of tensors, which lie anywhere: they go through one buffer.

    @undisturbed
    def allgather(
        self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any = None
    ) -> Calls:
        """Give the tensors of all ranks to all."""
        return self.allgather_coalesced([[out] for out in only(output_lists)], tensors, opts)

    @undisturbed
    def allgather_coalesced(
        self,
        output_lists: Sequence[Tensors],
        tensors: Tensors,
        opts: Any = None,
    ) -> Calls:
        """Give all tensors of all ranks to all: output_lists[r] are those of rank r."""
        outputs = [out for outs in output_lists for out in outs]
        flat = room_for(outputs)
        work = self._start.all_gather(joined(tensors), flat, deadline_s=deadline_of(opts))
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    @undisturbed
    def gather(self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any = None) -> Calls:
        """Give the tensors of all ranks to the root."""
        root = root_of(opts)
        x = checked(only(tensors))
        if self.rank() != root:
            return self._calls([self._start.gather(x, root=root, deadline_s=deadline_of(opts))])
        outputs = only(output_lists)
        flat = room_for(outputs)
        work = self._start.gather(x, flat, root=root, deadline_s=deadline_of(opts))
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    @undisturbed
    def scatter(self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any = None) -> Calls:
        """Give each rank its tensor of the root's list."""
        root = root_of(opts)
        x = joined(only(input_lists)) if self.rank() == root else None
        return self._calls(
            [
                self._start.scatter(
                    x, checked(only(outputs)), root=root, deadline_s=deadline_of(opts)
                )
            ],
            outputs,
        )

    @undisturbed
    def reduce_scatter(
        self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any = None
    ) -> Calls:
        """Combine the lists of all ranks and give each rank its tensor; sizes may differ."""
        inputs = only(input_lists)
        if len({tensor.numel() for tensor in inputs}) == 1:
            return self.reduce_scatter_single(only(outputs), joined(inputs), opts)
        if len(inputs) != self.size():
            raise InvalidArgument(f"{len(inputs)} tensors cannot go to {self.size()} ranks")
        op = operator_of(opts)
        out = checked(only(outputs))
        with group():
            works = [
                self._start.reduce(
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
    ) -> Calls:
        """Give each rank its tensor of the list, and get one from each; sizes may differ."""
        flat = room_for(outputs)
        sent = [tensor.numel() for tensor in inputs]
        received = [tensor.numel() for tensor in outputs]
        work = self._start.all_to_all_v(
            joined(inputs), sent, received, flat, deadline_s=deadline_of(opts)
        )
        return self._calls([work], outputs, lambda: hand_out(flat, outputs))

    # Messages.

    @undisturbed
    def send(self, tensors: Tensors, peer: int, tag: int) -> Calls:
        """Send a tensor."""
        _refuse_tag(tag)
        return self._calls([self._start.send(in_order(only(tensors)), peer)])

    @undisturbed
    def recv(self, tensors: Tensors, peer: int, tag: int) -> Calls:
        """Receive a tensor."""
        _refuse_tag(tag)
        buffer = in_order(only(tensors))
        return self._calls_in_order([self._start.recv(buffer, peer)], [buffer], tensors)

    @undisturbed
    def recv_anysource(self, tensors: Tensors, tag: int) -> Calls:  # noqa: ARG002
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
