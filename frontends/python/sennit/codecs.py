"""Codecs: arrays of floats as fewer bytes, and back.

They are what shortens messages on a slow wire; here they run on the host, on one array::

    coded = sennit.codecs.encode(x, "zfp:8")  # bytes
    y = sennit.codecs.decode(coded, "zfp:8", x.dtype, x.size).reshape(x.shape)

docs/codecs.md says when to use which, and what each loses.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sennit import _core
from sennit._core import InvalidArgument
from sennit.elements import Typed, empty

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["decode", "encode", "names"]


def names() -> tuple[str, ...]:
    """The names of all codecs."""
    return tuple(row["name"] for row in json.loads(_core.tool_codecs("{}"))["codecs"])


def encode(x: Any, codec: str) -> bytes:
    """The values of an array in the bits of a codec.

    Args:
        x: What calls take as a buffer: an array in C order, of a type that the codec takes.
        codec: Its name, such as "zfp:8", "q8" or "exact".

    Raises:
        Unsupported: The codec does not take the type of x.
        InvalidArgument: There is no such codec, or x is no buffer.
    """
    return _core.encode(codec, _core.buffer_of(x, "x", writable=False))


def decode(buffer: Any, codec: str, dtype: DTypeLike, count: int) -> NDArray[Any] | Typed:
    """The values that `encode` has put into these bytes, as a flat array.

    Args:
        buffer: The bytes.
        codec: The codec that wrote them.
        dtype: The type of the values. "bfloat16" gives bits, `sennit.Typed`; the type of ml_dtypes
            an array of that package.
        count: How many values there are.

    Raises:
        InvalidArgument: The bytes are not those of so many values.
        Unsupported: The codec does not take the type.
    """
    if count < 0:
        raise InvalidArgument(f"count is {count}, expected a number of values")
    values: NDArray[Any] | Typed = _empty(count, dtype)
    coded = _core.Buffer(buffer, "buffer", writable=False)
    _core.decode(codec, coded, _core.buffer_of(values, "values", writable=True))
    return values


def _empty(count: int, dtype: DTypeLike) -> Any:
    if isinstance(dtype, str) and dtype == "bfloat16":
        return empty(count, dtype, Typed(np.empty(0, np.uint16), dtype))
    try:
        return np.empty(count, dtype)
    except TypeError as error:
        raise InvalidArgument(f"dtype is {dtype!r}, which NumPy does not know") from error
