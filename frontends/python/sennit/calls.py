"""What a call needs, from what a user passes: options, and the blocks where lengths vary.

`prepare` of the extension makes the calls whose blocks have one length, and the functions here the
others. Both return the prepared call and what its blocking form returns; the caller decides whether
it is run, started or put into a group.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from sennit import _core, gpu_arrays
from sennit._core import Buffer, CallOptions, Collective, InvalidArgument, Work, buffer_of
from sennit.elements import empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sennit.schedules import Schedule


_NOTHING = CallOptions()


def check_text(what: str, value: object) -> None:
    """Refuse by name what C cannot take as text; None is allowed."""
    if not isinstance(value, str | None):
        raise TypeError(f"{what} is text, not {value!r}")
    if value and (value.encode(errors="ignore").decode() != value or "\0" in value):
        raise InvalidArgument(f"{what} is {value!r}: it must be UTF-8 without zero bytes")


def asked(
    algorithm: str | None,
    deadline_s: float | None,
    reproducible: bool,
    schedule: Schedule | None,
    codec: str | None,
    stream: Any,
    tag: int = 0,
) -> CallOptions:
    """What is asked of one call, which every rank must ask, but for the stream.

    Most calls ask for nothing, and share theirs.
    """
    if (
        stream is None
        and algorithm is None
        and deadline_s is None
        and schedule is None
        and codec is None
        and not reproducible
        and not tag
    ):
        return _NOTHING
    check_text("algorithm", algorithm)
    check_text("codec", codec)
    return CallOptions(
        algorithm if schedule is None else _algorithm_of(schedule, algorithm),
        0.0 if deadline_s is None else deadline_field(deadline_s),
        bool(reproducible),
        codec,
        None if stream is None else _core.stream_of(stream),
        _tag_field(tag),
    )


def _tag_field(tag: int) -> int:
    number = operator.index(tag)
    if not 0 <= number < 2**31:
        raise InvalidArgument(f"tag {tag} is out of range: tags go from 0 to {2**31 - 1}")
    return number


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
    if not isinstance(deadline_s, Real):
        raise TypeError(f"a deadline is a number of seconds, not {deadline_s!r}")
    if math.isnan(deadline_s):
        raise InvalidArgument("a deadline of nan seconds is none; pass 0 for no limit")
    return float(deadline_s) if deadline_s > 0 else -1.0


def all_gather_v(group: Group, x: Any, out: Any, table: Table, options: CallOptions) -> Prepared:
    """Prepare `Communicator.all_gather_v`."""
    send = buffer_of(x, "x", False, options.stream)
    blocks = _blocks(group, table)
    out = _allocated(out, blocks.end, send, x, options)
    recv = _holding(buffer_of(out, "out", True, options.stream), "out", blocks.end)
    work = _prepare(
        group, Collective.ALL_GATHER_V, send, recv, send.count, options, output=blocks.core
    )
    return work, out


def gather_v(
    group: Group, x: Any, out: Any, table: Table, root: int, options: CallOptions
) -> Prepared:
    """Prepare `Communicator.gather_v`."""
    send = buffer_of(x, "x", False, options.stream)
    recv, core = None, _NO_BLOCKS
    if group.rank == root:
        blocks = _blocks(group, table)
        core = blocks.core
        out = _allocated(out, blocks.end, send, x, options)
        recv = _holding(buffer_of(out, "out", True, options.stream), "out", blocks.end)
    else:
        out = None
    work = _prepare(
        group, Collective.GATHER_V, send, recv, send.count, options, root=root, output=core
    )
    return work, out


def scatter_v(
    group: Group, x: Any, out: Any, table: Table, root: int, options: CallOptions
) -> Prepared:
    """Prepare `Communicator.scatter_v`."""
    send, core = None, _NO_BLOCKS
    if group.rank == root:
        if x is None:
            raise InvalidArgument(f"scatter_v needs x on its root, rank {root}")
        blocks = _blocks(group, table)
        core = blocks.core
        send = _holding(buffer_of(x, "x", False, options.stream), "x", blocks.end)
        out = _allocated(out, blocks.counts[group.rank], send, x, options)
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
    group: Group, x: Any, out: Any, sent: Table, received: Table, options: CallOptions
) -> Prepared:
    """Prepare `Communicator.all_to_all_v`."""
    inputs = _blocks(group, sent)
    outputs = _blocks(group, received)
    send = _holding(buffer_of(x, "x", False, options.stream), "x", inputs.end)
    out = _allocated(out, outputs.end, send, x, options)
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


def _prepare(
    group: Group,
    collective: Collective,
    send: Buffer | None,
    recv: Buffer | None,
    count: int,
    options: CallOptions,
    *,
    root: int = 0,
    input: _core.Blocks = _NO_BLOCKS,
    output: _core.Blocks = _NO_BLOCKS,
) -> Work:
    try:
        return Work(group.handle, collective, send, recv, count, root, options, input, output)
    except TypeError:
        if abs(operator.index(root)) > LARGEST:
            raise InvalidArgument(f"{root} is no rank: a rank has at most 32 bits") from None
        raise


def new_output(shape: Sequence[int], dtype: str, is_on_gpu: bool, x: Any, stream: Any) -> Any:
    """A new array for the output of a call whose input is x."""
    if is_on_gpu:
        return gpu_arrays.empty(shape, dtype, x, stream)
    return empty(shape, dtype, x)


def _allocated(out: Any, length: int, like: Buffer, x: Any, options: CallOptions) -> Any:
    if out is not None:
        return out
    return new_output((length,), like.dtype, like.is_on_gpu, x, options.stream)


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
