"""Failures of groups: exceptions of Sennit that are also those of torch.distributed.

Programs catch `sennit.RankFailed`, `torch.distributed.DistBackendError` or `RuntimeError`.
"""

from __future__ import annotations

import functools
from typing import Any

import torch.distributed as dist

import sennit
from sennit import _core

_NAMES = {code: name for name, code, _ in _core.STATUS_CODES}


def last(status: int) -> sennit.Error:
    """The last error of this thread, if it has this status."""
    return also_of_pytorch(_core.last_error(status))


def new(status: int, text: str) -> sennit.Error:
    """A failure that was found outside of the library."""
    kind: type[sennit.Error] = getattr(sennit, _NAMES[status])
    return also_of_pytorch(kind(text))


def also_of_pytorch(error: sennit.Error) -> sennit.Error:
    """The same failure, as an exception of PyTorch too."""
    made: sennit.Error = _class(type(error).__name__)(*error.args)
    made.__dict__.update(error.__dict__)
    return made


@functools.cache
def _class(name: str) -> Any:
    bases = (getattr(sennit, name), dist.DistBackendError)
    return type(name, bases, {"__module__": __name__, "__doc__": bases[0].__doc__})


def __getattr__(name: str) -> Any:
    """The class with this name, as pickle looks for it."""
    if name in _NAMES.values() and hasattr(sennit, name):
        return _class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
