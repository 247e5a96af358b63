"""Tensors as calls take them."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import ReduceOp

from sennit import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

_OPERATORS = (
    (ReduceOp.SUM, "sum"),
    (ReduceOp.AVG, "avg"),
    (ReduceOp.PRODUCT, "prod"),
    (ReduceOp.MIN, "min"),
    (ReduceOp.MAX, "max"),
    (ReduceOp.BAND, "bitwise_and"),
    (ReduceOp.BOR, "bitwise_or"),
    (ReduceOp.BXOR, "bitwise_xor"),
)


def operator_name(op: Any) -> str:
    """What Sennit calls a reduce operator of PyTorch."""
    for known, name in _OPERATORS:
        if op == known:
            return name
    raise Unsupported(f"the backend sennit has no operator {op}; use sum, avg, prod, min or max")


def operator_of(opts: Any) -> str:
    """The operator of a call: options, an operator of PyTorch, or None for the sum."""
    return operator_name(ReduceOp.SUM if opts is None else getattr(opts, "reduceOp", opts))


def root_of(opts: Any) -> int:
    """The root of a call: options, a rank, or None for rank 0."""
    return int(getattr(opts, "rootRank", opts or 0))


def deadline_of(opts: Any) -> float | None:
    """The seconds that a call may take by its options; None: those of the group."""
    timeout = getattr(opts, "timeout", None)
    # One that was not set is negative, and zero is none at all, as deadline_s has it.
    return None if timeout is None or timeout < datetime.timedelta() else timeout.total_seconds()


def listed(tensors: Sequence[torch.Tensor] | torch.Tensor) -> Sequence[torch.Tensor]:
    """A list of tensors; PyTorch's own groups take a tensor where there is only one."""
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def only(tensors: Sequence[Any]) -> Any:
    """The one element of a list: a rank has one device."""
    if len(tensors) != 1:
        raise InvalidArgument(f"the backend sennit takes one tensor a rank, not {len(tensors)}")
    return tensors[0]


def _refuse_what_is_not_in_memory(tensor: torch.Tensor) -> None:
    if tensor.device.type not in ("cpu", "cuda"):
        raise Unsupported(
            f"the backend sennit moves tensors of CPUs and CUDA GPUs, this one is on "
            f"{tensor.device}"
        )
    if tensor.layout != torch.strided:
        raise Unsupported(f"the backend sennit moves dense tensors, this one is {tensor.layout}")
    if tensor.is_conj() or tensor.is_neg() or tensor._is_zerotensor():
        raise Unsupported("pass tensor.resolve_conj().resolve_neg(): this one is a lazy view")


def checked(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, if its memory can be used as it lies there."""
    _refuse_what_is_not_in_memory(tensor)
    if not tensor.is_contiguous():
        raise InvalidArgument("the backend sennit takes contiguous tensors: pass x.contiguous()")
    return tensor.detach()


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill one piece of memory, each with a place of its own."""
    expected = 1
    for stride, length in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def in_order(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as it lies there; a dense one in another order (channels_last) as a copy.

    A copy, since the ranks need not agree about the order: element by element as they lie in
    memory, a rank with channels_last and one without would get each other's elements.
    """
    _refuse_what_is_not_in_memory(tensor)
    if tensor.is_contiguous():
        return tensor.detach()
    return checked(tensor.detach().contiguous() if _is_dense(tensor) else tensor)


def in_order_list(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """All tensors in_order, none of which may stand there twice: it would be written twice."""
    buffers = [in_order(tensor) for tensor in tensors]
    _refuse_twice(tensors)
    return buffers


def hand_back(buffers: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> None:
    """Copy what in_order copied back to where it came from."""
    for buffer, tensor in zip(buffers, tensors, strict=True):
        if not tensor.is_contiguous():
            tensor.detach().copy_(buffer)


def checked_list(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors, checked, none of which may stand there twice: it would be written twice."""
    tensors = [checked(tensor) for tensor in outputs]
    _refuse_twice(tensors)
    return tensors


def _refuse_twice(outputs: Sequence[torch.Tensor]) -> None:
    places = [tensor.data_ptr() for tensor in outputs if tensor.numel() > 0]
    if len(set(places)) != len(places):
        raise InvalidArgument("the same tensor stands twice in a list of outputs")


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A new flat tensor of the elements of all."""
    return torch.cat([checked(tensor).reshape(-1) for tensor in tensors])


def room_for(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """A new flat tensor that the elements of all fit into, which are of one type."""
    types = {checked(tensor).dtype for tensor in tensors}
    if len(types) != 1:
        raise InvalidArgument("the tensors of a list must have one type")
    count = sum(tensor.numel() for tensor in tensors)
    return torch.empty(count, dtype=types.pop(), device=tensors[0].device)


def hand_out(flat: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy a flat tensor, part by part, to tensors."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    for tensor, part in zip(tensors, parts, strict=True):
        tensor.detach().copy_(part.view(tensor.shape))
