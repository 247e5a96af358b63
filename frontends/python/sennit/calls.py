"""What a call needs, from what a user passes: checked buffers, counts, a place for its result.

One function a collective. Each returns the prepared call and what its blocking form returns; the
caller decides whether it is run, started or put into a group.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

from sennit import _core, gpu_arrays
from sennit._core import REDUCE_OPS, Buffer, Collective, InvalidArgument, Work
from sennit.elements import PremulSum, buffer_of, empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sennit.schedules import Schedule


class Options:
    """What may be asked of any one call; every rank must ask for the same, but for the stream.

    Attributes:
        algorithm: As the C ABI names it: of the table, or a schedule of the caller's.
        deadline_s: As the C ABI writes it.
        reproducible: Whether the order of ranks is the order of reduction.
        codec: Name of a codec.
        stream: The CUDA stream that the program names, as a number; None: that of the library that
            made the buffers.
    """

    __slots__ = ("algorithm", "codec", "deadline_s", "reproducible", "stream")

    def __init__(
        self,
        algorithm: str | None = None,
        deadline_s: float | None = None,
        reproducible: bool = False,
        schedule: Schedule | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> None:
        """Take what a program passes."""
        self.algorithm = algorithm if schedule is None else _algorithm_of(schedule, algorithm)
        self.deadline_s = 0.0 if deadline_s is None else deadline_field(deadline_s)
        self.reproducible = bool(reproducible)
        self.codec = codec
        self.stream = None if stream is None else _core.stream_of(stream)


_NOTHING = Options()


def asked(
    algorithm: str | None,
    deadline_s: float | None,
    reproducible: bool,
    schedule: Schedule | None,
    codec: str | None,
    stream: Any,
) -> Options:
    """The options of a call; most calls ask for nothing, and share theirs."""
    if (
        stream is None
        and algorithm is None
        and deadline_s is None
        and schedule is None
        and codec is None
        and not reproducible
    ):
        return _NOTHING
    return Options(algorithm, deadline_s, reproducible, schedule, codec, stream)


def _algorithm_of(schedule: Schedule, algorithm: str | None) -> str:
    if algorithm is not None:
        raise InvalidArgument(
            f"algorithm={algorithm!r} and a schedule are two ways to run one call; pass one of them"
        )
    from sennit.schedules import Schedule

    if not isinstance(schedule, Schedule):
        raise InvalidArgument(
            f"schedule is a {type(schedule).__name__}, expected what "
            "sennit.schedules.Builder.build or sennit.schedules.load gives"
        )
    return schedule.algorithm


Operator = str | PremulSum


class Group(NamedTuple):
    """The communicator as a call sees it."""

    handle: _core.Comm
    rank: int
    size: int


class Table(NamedTuple):
    """The blocks of a buffer whose lengths vary: elements and places, one a rank."""

    counts: Iterable[int] | None
    displacements: Iterable[int] | None = None


Prepared = tuple[Work, Any]

LARGEST = 2**31 - 1
"""Number of a rank, color or key: an int of C."""

_NO_BLOCKS = _core.Blocks([], [])


def deadline_field(deadline_s: float | None) -> float:
    """A deadline as the C ABI writes it: 0 takes the default, negative is none."""
    if deadline_s is None:
        return 0.0
    if math.isnan(deadline_s):
        raise InvalidArgument("a deadline of nan seconds is none; pass 0 for no limit")
    return float(deadline_s) if deadline_s > 0 else -1.0


def all_reduce(group: Group, x: Any, out: Any, op: Operator, options: Options) -> Prepared:
    """Prepare `Communicator.all_reduce`."""
    send, recv, out = _equal_buffers(x, out, options)
    return _prepare(group, Collective.ALL_REDUCE, send, recv, send.count, options, op=op), out


def reduce(group: Group, x: Any, out: Any, op: Operator, root: int, options: Options) -> Prepared:
    """Prepare `Communicator.reduce`."""
    recv = None
    if group.rank == root:
        send, recv, out = _equal_buffers(x, out, options)
    else:
        send, out = buffer_of(x, "x", False, options.stream), None
    work = _prepare(group, Collective.REDUCE, send, recv, send.count, options, op=op, root=root)
    return work, out


def broadcast(group: Group, x: Any, root: int, options: Options) -> Prepared:
    """Prepare `Communicator.broadcast`."""
    buffer = buffer_of(x, "x", group.rank != operator.index(root), options.stream)
    work = _prepare(group, Collective.BROADCAST, buffer, buffer, buffer.count, options, root=root)
    return work, x


def all_gather(group: Group, x: Any, out: Any, options: Options) -> Prepared:
    """Prepare `Communicator.all_gather`."""
    send = buffer_of(x, "x", False, options.stream)
    out = _allocated(out, (group.size, *send.shape), send, x, options)
    recv = _output(out, send.count * group.size, f"{group.size} times as many as x", options)
    return _prepare(group, Collective.ALL_GATHER, send, recv, send.count, options), out


def reduce_scatter(group: Group, x: Any, out: Any, op: Operator, options: Options) -> Prepared:
    """Prepare `Communicator.reduce_scatter`."""
    send = buffer_of(x, "x", False, options.stream)
    shape = _part_shape(send, group.size)
    out = _allocated(out, shape, send, x, options)
    count = send.count // group.size
    recv = _output(out, count, f"1/{group.size} of those of x", options)
    return _prepare(group, Collective.REDUCE_SCATTER, send, recv, count, options, op=op), out


def all_to_all(group: Group, x: Any, out: Any, options: Options) -> Prepared:
    """Prepare `Communicator.all_to_all`."""
    send, recv, out = _equal_buffers(x, out, options)
    _part_shape(send, group.size)
    count = send.count // group.size
    return _prepare(group, Collective.ALL_TO_ALL, send, recv, count, options), out


def gather(group: Group, x: Any, out: Any, root: int, options: Options) -> Prepared:
    """Prepare `Communicator.gather`."""
    send = buffer_of(x, "x", False, options.stream)
    recv = None
    if group.rank == root:
        out = _allocated(out, (group.size, *send.shape), send, x, options)
        recv = _output(out, send.count * group.size, f"{group.size} times as many as x", options)
    else:
        out = None
    return _prepare(group, Collective.GATHER, send, recv, send.count, options, root=root), out


def scatter(group: Group, x: Any, out: Any, root: int, options: Options) -> Prepared:
    """Prepare `Communicator.scatter`."""
    if group.rank != root:
        if out is None:
            raise InvalidArgument(
                f"scatter needs out on rank {group.rank}: only the root {root} knows shape and type"
            )
        recv = buffer_of(out, "out", True, options.stream)
        return _prepare(group, Collective.SCATTER, None, recv, recv.count, options, root=root), out
    if x is None:
        raise InvalidArgument(f"scatter needs x on its root, rank {root}")
    send = buffer_of(x, "x", False, options.stream)
    out = _allocated(out, _part_shape(send, group.size), send, x, options)
    count = send.count // group.size
    recv = _output(out, count, f"1/{group.size} of those of x", options)
    return _prepare(group, Collective.SCATTER, send, recv, count, options, root=root), out


def all_gather_v(group: Group, x: Any, out: Any, table: Table, options: Options) -> Prepared:
    """Prepare `Communicator.all_gather_v`."""
    send = buffer_of(x, "x", False, options.stream)
    blocks = _blocks(group, table)
    out = _allocated(out, (blocks.end,), send, x, options)
    recv = _holding(buffer_of(out, "out", True, options.stream), "out", blocks.end)
    work = _prepare(
        group, Collective.ALL_GATHER_V, send, recv, send.count, options, output=blocks.core
    )
    return work, out


def gather_v(group: Group, x: Any, out: Any, table: Table, root: int, options: Options) -> Prepared:
    """Prepare `Communicator.gather_v`."""
    send = buffer_of(x, "x", False, options.stream)
    recv, core = None, _NO_BLOCKS
    if group.rank == root:
        blocks = _blocks(group, table)
        core = blocks.core
        out = _allocated(out, (blocks.end,), send, x, options)
        recv = _holding(buffer_of(out, "out", True, options.stream), "out", blocks.end)
    else:
        out = None
    work = _prepare(
        group, Collective.GATHER_V, send, recv, send.count, options, root=root, output=core
    )
    return work, out


def scatter_v(
    group: Group, x: Any, out: Any, table: Table, root: int, options: Options
) -> Prepared:
    """Prepare `Communicator.scatter_v`."""
    send, core = None, _NO_BLOCKS
    if group.rank == root:
        if x is None:
            raise InvalidArgument(f"scatter_v needs x on its root, rank {root}")
        blocks = _blocks(group, table)
        core = blocks.core
        send = _holding(buffer_of(x, "x", False, options.stream), "x", blocks.end)
        out = _allocated(out, (blocks.counts[group.rank],), send, x, options)
    elif out is None:
        raise InvalidArgument(
            f"scatter_v needs out on rank {group.rank}: only the root {root} knows length and type"
        )
    recv = buffer_of(out, "out", True, options.stream)
    work = _prepare(
        group, Collective.SCATTER_V, send, recv, recv.count, options, root=root, input=core
    )
    return work, out


def all_to_all_v(
    group: Group, x: Any, out: Any, sent: Table, received: Table, options: Options
) -> Prepared:
    """Prepare `Communicator.all_to_all_v`."""
    inputs = _blocks(group, sent)
    outputs = _blocks(group, received)
    send = _holding(buffer_of(x, "x", False, options.stream), "x", inputs.end)
    out = _allocated(out, (outputs.end,), send, x, options)
    recv = _holding(buffer_of(out, "out", True, options.stream), "out", outputs.end)
    work = _prepare(
        group,
        Collective.ALL_TO_ALL_V,
        send,
        recv,
        0,
        options,
        input=inputs.core,
        output=outputs.core,
    )
    return work, out


def send(group: Group, x: Any, peer: int, options: Options) -> Prepared:
    """Prepare `Communicator.send`."""
    buffer = buffer_of(x, "x", False, options.stream)
    return _prepare(group, Collective.SEND, buffer, None, buffer.count, options, root=peer), None


def recv(group: Group, out: Any, peer: int, options: Options) -> Prepared:
    """Prepare `Communicator.recv`."""
    buffer = buffer_of(out, "out", True, options.stream)
    return _prepare(group, Collective.RECV, None, buffer, buffer.count, options, root=peer), out


def barrier(group: Group, options: Options) -> Prepared:
    """Prepare `Communicator.barrier`."""
    return _prepare(group, Collective.BARRIER, None, None, 0, options), None


def _prepare(
    group: Group,
    collective: Collective,
    send: Buffer | None,
    recv: Buffer | None,
    count: int,
    options: Options,
    *,
    op: Operator = "sum",
    root: int = 0,
    input: _core.Blocks = _NO_BLOCKS,
    output: _core.Blocks = _NO_BLOCKS,
) -> Work:
    scalar = b""
    if isinstance(op, PremulSum):
        buffer = send if send is not None else recv
        assert buffer is not None
        scalar, op = op.element(buffer.dtype), "sum"
    number = REDUCE_OPS.get(op)
    if number is None:
        raise InvalidArgument(
            f"no reduce operator {op!r}; there are {', '.join(REDUCE_OPS)} and premulsum(x)"
        )
    try:
        return Work(
            group.handle,
            collective,
            send,
            recv,
            count,
            number,
            root,
            options.algorithm,
            options.deadline_s,
            scalar,
            options.reproducible,
            options.codec,
            options.stream,
            input,
            output,
        )
    except TypeError:
        if abs(operator.index(root)) > LARGEST:
            raise InvalidArgument(f"{root} is no rank: a rank has at most 32 bits") from None
        raise


def _equal_buffers(x: Any, out: Any, options: Options) -> tuple[Buffer, Buffer, Any]:
    """Input and output of the same count; one buffer where the call is in place."""
    if out is x:
        both = buffer_of(x, "x", True, options.stream)
        return both, both, out
    send = buffer_of(x, "x", False, options.stream)
    out = _allocated(out, send.shape, send, x, options)
    return send, _output(out, send.count, "as many as x", options), out


def _allocated(out: Any, shape: Sequence[int], like: Buffer, x: Any, options: Options) -> Any:
    if out is not None:
        return out
    if like.is_on_gpu:
        return gpu_arrays.empty(shape, like.dtype, x, options.stream)
    return empty(shape, like.dtype, x)


def _numbers(values: Iterable[int]) -> list[int]:
    numbers = [operator.index(value) for value in values]
    if any(number < 0 for number in numbers):
        raise InvalidArgument(f"counts and displacements cannot be negative: {numbers}")
    return numbers


class _Blocks(NamedTuple):
    """The blocks as the C ABI takes them, and the element behind the last of them."""

    core: _core.Blocks
    counts: list[int]
    end: int


def _blocks(group: Group, table: Table) -> _Blocks:
    if table.counts is None:
        raise InvalidArgument("this call needs counts, one for each rank")
    counts = _numbers(table.counts)
    places = [] if table.displacements is None else _numbers(table.displacements)
    for numbers, what in ((counts, "counts"), (places, "displacements")):
        if len(numbers) != group.size and (numbers or what == "counts"):
            raise InvalidArgument(f"{len(numbers)} {what} for {group.size} ranks")
    if not places:
        return _Blocks(_core.Blocks(counts, places), counts, sum(counts))
    ends = [place + count for place, count in zip(places, counts, strict=True) if count > 0]
    return _Blocks(_core.Blocks(counts, places), counts, max(ends, default=0))


def _holding(buffer: Buffer, name: str, elements: int) -> Buffer:
    if buffer.count < elements:
        raise InvalidArgument(
            f"{name} has {buffer.count} elements, but its blocks end at {elements}"
        )
    return buffer


def _output(out: Any, count: int, rule: str, options: Options) -> Buffer:
    buffer = buffer_of(out, "out", True, options.stream)
    if buffer.count != count:
        raise InvalidArgument(
            f"out has {buffer.count} elements, but the call writes {count} ({rule})"
        )
    return buffer


def _part_shape(x: Buffer, size: int) -> tuple[int, ...]:
    """Shape of one rank's part of x: the first axis is cut, and vanishes when it is the ranks."""
    if not x.shape or x.shape[0] % size != 0:
        raise InvalidArgument(
            f"the first axis of x must be a multiple of the {size} ranks, but x has shape {x.shape}"
        )
    first, *rest = x.shape
    return tuple(rest) if first == size and rest else (first // size, *rest)
