"""The second form of a group's methods: bare tensors, and a timeout in the place of options.

PyTorch's own groups have it in C++: `allreduce(tensor, op, timeout)` and
`allreduce([tensor], AllreduceOptions)`. A group in Python has one method of a name, so this turns
the second form into the first.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.distributed.distributed_c10d as c10d

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable

Group = TypeVar("Group", bound=type)


class _Form(NamedTuple):
    """What the second form of a method has.

    Attributes:
        options: The class of options of the first form.
        depths: For each argument with tensors, how many lists of the first form enclose a bare one.
        words: What comes between the tensors and the timeout; fields of the options.
    """

    options: type
    depths: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


_FORMS = {
    "broadcast": _Form(c10d.BroadcastOptions, (1,), ("root",)),
    "allreduce": _Form(c10d.AllreduceOptions, (1,), ("op",)),
    "reduce": _Form(c10d.ReduceOptions, (1,), ("root", "op")),
    "allgather": _Form(c10d.AllgatherOptions, (2, 1)),
    "gather": _Form(c10d.GatherOptions, (2, 1), ("root",)),
    "scatter": _Form(c10d.ScatterOptions, (1, 2), ("root",)),
    "reduce_scatter": _Form(c10d.ReduceScatterOptions, (1, 2), ("op",)),
    "alltoall_base": _Form(c10d.AllToAllOptions, (0, 0, 0, 0)),
    "all_to_all_single": _Form(c10d.AllToAllOptions, (0, 0, 0, 0)),
    "barrier": _Form(c10d.BarrierOptions),
}
_FIELDS = {"root": "rootRank", "op": "reduceOp", "timeout": "timeout"}


def takes_timeouts(group: Group) -> Group:
    """A class of groups whose methods take both forms."""
    for name, form in _FORMS.items():
        setattr(group, name, _with_both(getattr(group, name), form))
    return group


def _with_both(method: Callable[..., Any], form: _Form) -> Callable[..., Any]:
    words = (*form.words, "timeout")

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        tensors, rest = arguments[: len(form.depths)], arguments[len(form.depths) :]
        is_first = "opts" in keywords or (rest and isinstance(rest[0], form.options))
        if is_first or not set(keywords) <= set(words):
            return method(self, *arguments, **keywords)
        if len(rest) > len(words):
            raise TypeError(f"{method.__name__} takes {', '.join(words)} behind the tensors")
        given = dict(zip(words, rest, strict=False)) | keywords
        listed = [_listed(one, depth) for one, depth in zip(tensors, form.depths, strict=False)]
        return method(self, *listed, _options(form.options, **given))

    return call


def _listed(tensors: Any, depth: int) -> Any:
    """The tensors in as many lists as the first form has them."""
    inner, found = tensors, 0
    while isinstance(inner, list | tuple) and inner:
        inner, found = inner[0], found + 1
    if not isinstance(inner, torch.Tensor):
        return tensors
    for _ in range(depth - found):
        tensors = [tensors]
    return tensors


def _options(kind: type, timeout: datetime.timedelta | None = None, **words: Any) -> Any:
    """The options that say what the words say; a timeout that is None stays that of the group."""
    options = kind()
    for name, value in words.items():
        setattr(options, _FIELDS[name], value)
    if timeout is not None:
        options.timeout = timeout
    return options
