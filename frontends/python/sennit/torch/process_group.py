"""Process groups of torch.distributed over a communicator."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from sennit import Communicator, Config, InvalidArgument, Unsupported, _core, group
from sennit.torch.tensors import checked, hand_out, joined, only, operator_name, room_for
from sennit.torch.works import Calls

if TYPE_CHECKING:
    import datetime
    from collections.abc import Sequence

    import torch

    Tensors = Sequence[torch.Tensor]

_KEY = "sennit"


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
        if rank == 0:
            store.set(_KEY, secrets.token_hex(16))
        key = store.get(_KEY).decode()
        seconds = timeout.total_seconds()
        name = f"torch.{key[:6]}"
        config = Config().core(name, seconds, seconds)
        self._comm = Communicator(_core.init_rank(rank, size, key, config), name, config)
        self._start = self._comm.start

    # What a group is.

    def getBackendName(self) -> str:
        """The name of the backend."""
        return "sennit"

    def name(self) -> str:
        """The name of the backend, as Python asks for it."""
        return "sennit"

    def abort(self) -> None:
        """End all waiting, here and on the other ranks."""
        self._comm.abort()

    def shutdown(self) -> None:
        """Leave the group."""
        self._comm.destroy()

    # Collectives of one tensor.

    def broadcast(self, tensors: Tensors, opts: Any) -> Calls:
        """Overwrite the tensor by that of the root."""
        work = self._start.broadcast(checked(only(tensors)), opts.rootRank)
        return Calls([work], tensors)

    def allreduce(self, tensors: Tensors, opts: Any) -> Calls:
        """Combine the tensors of all ranks, in place."""
        return self.allreduce_coalesced([only(tensors)], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Calls:
        """Combine each tensor with those of the other ranks, in place."""
        op = operator_name(opts.reduceOp)
        buffers = [checked(tensor) for tensor in tensors]
        with group():
            works = [self._start.all_reduce(buffer, buffer, op=op) for buffer in buffers]
        return Calls(works, tensors)

    def reduce(self, tensors: Tensors, opts: Any) -> Calls:
        """Combine the tensors of all ranks, in place at the root."""
        buffer = checked(only(tensors))
        op = operator_name(opts.reduceOp)
        return Calls([self._start.reduce(buffer, buffer, op=op, root=opts.rootRank)], tensors)

    def all_gather_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Calls:
        """Give the tensors of all ranks to all, one after the other."""
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def all_gather_single_coalesced(
        self,
        outputs: Tensors,
        inputs: Tensors,
        opts: Any,  # noqa: ARG002
    ) -> Calls:
        """Several calls of all_gather_single at once."""
        pairs = [(checked(x), checked(out)) for x, out in zip(inputs, outputs, strict=True)]
        with group():
            works = [self._start.all_gather(x, out) for x, out in pairs]
        return Calls(works, outputs)

    def reduce_scatter_single(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Calls:
        """Combine the tensors of all ranks and give each its part."""
        return self.reduce_scatter_single_coalesced([output], [tensor], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any
    ) -> Calls:
        """Several calls of reduce_scatter_single at once."""
        op = operator_name(opts.reduceOp)
        # Parts are parts of the memory here, whatever the shapes are.
        pairs = [
            (checked(x).reshape(-1), checked(out)) for x, out in zip(inputs, outputs, strict=True)
        ]
        with group():
            works = [self._start.reduce_scatter(x, out, op=op) for x, out in pairs]
        return Calls(works, outputs)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any,  # noqa: ARG002
    ) -> Calls:
        """Give each rank its rows, and get some from each; no splits: the same number for all."""
        x, out = checked(tensor), checked(output)
        if not output_splits and not input_splits:
            work = self._start.all_to_all(x.reshape(-1), out.reshape(-1))
            return Calls([work], [output])
        sent = self._elements(x, input_splits)
        received = self._elements(out, output_splits)
        work = self._start.all_to_all_v(x.reshape(-1), sent, received, out.reshape(-1))
        return Calls([work], [output])

    def barrier(self, opts: Any = None) -> Calls:  # noqa: ARG002
        """Wait for all ranks."""
        return Calls([self._start.barrier()])

    # Collectives of lists of tensors, which lie anywhere: they go through one buffer.

    def allgather(self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any) -> Calls:
        """Give the tensors of all ranks to all."""
        return self.allgather_coalesced([[out] for out in only(output_lists)], tensors, opts)

    def allgather_coalesced(
        self,
        output_lists: Sequence[Tensors],
        tensors: Tensors,
        opts: Any,  # noqa: ARG002
    ) -> Calls:
        """Give all tensors of all ranks to all: output_lists[r] are those of rank r."""
        outputs = [out for outs in output_lists for out in outs]
        flat = room_for(outputs)
        work = self._start.all_gather(joined(tensors), flat)
        return Calls([work], outputs, lambda: hand_out(flat, outputs))

    def gather(self, output_lists: Sequence[Tensors], tensors: Tensors, opts: Any) -> Calls:
        """Give the tensors of all ranks to the root."""
        root = opts.rootRank
        x = checked(only(tensors))
        if self.rank() != root:
            return Calls([self._start.gather(x, root=root)])
        outputs = only(output_lists)
        flat = room_for(outputs)
        work = self._start.gather(x, flat, root=root)
        return Calls([work], outputs, lambda: hand_out(flat, outputs))

    def scatter(self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any) -> Calls:
        """Give each rank its tensor of the root's list."""
        root = opts.rootRank
        x = joined(only(input_lists)) if self.rank() == root else None
        return Calls([self._start.scatter(x, checked(only(outputs)), root=root)], outputs)

    def reduce_scatter(self, outputs: Tensors, input_lists: Sequence[Tensors], opts: Any) -> Calls:
        """Combine the lists of all ranks and give each rank its tensor."""
        return self.reduce_scatter_single(only(outputs), joined(only(input_lists)), opts)

    def alltoall(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Calls:  # noqa: ARG002
        """Give each rank its tensor of the list, and get one from each; sizes may differ."""
        flat = room_for(outputs)
        sent = [tensor.numel() for tensor in inputs]
        received = [tensor.numel() for tensor in outputs]
        work = self._start.all_to_all_v(joined(inputs), sent, received, flat)
        return Calls([work], outputs, lambda: hand_out(flat, outputs))

    # Messages.

    def send(self, tensors: Tensors, peer: int, tag: int) -> Calls:
        """Send a tensor."""
        _refuse_tag(tag)
        return Calls([self._start.send(checked(only(tensors)), peer)])

    def recv(self, tensors: Tensors, peer: int, tag: int) -> Calls:
        """Receive a tensor."""
        _refuse_tag(tag)
        return Calls([self._start.recv(checked(only(tensors)), peer)], tensors)

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
