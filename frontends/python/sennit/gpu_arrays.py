"""New arrays in GPU memory, of the library that the input of a call comes from."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

from sennit import elements
from sennit._core import InvalidArgument
from sennit.elements import Typed

if TYPE_CHECKING:
    from collections.abc import Sequence


def empty(shape: Sequence[int], dtype: str, like: Any, stream: int | None) -> Any:
    """A new array of the library, type and GPU of `like`.

    Libraries give memory back in the order of a stream, and so it is taken from the stream that
    the call is on.

    Args:
        shape: Of the new array.
        dtype: Name of the element type.
        like: The input of the call.
        stream: Of the call, where the program names one; None: that of the library.
    """
    if isinstance(like, Typed):
        return Typed(empty(shape, elements.carrier_of(dtype), like.array, stream), like.dtype)
    if _is_of("torch", "Tensor", like):
        with _torch_stream(like, stream):
            return like.new_empty(tuple(shape))
    if _is_of("cupy", "ndarray", like):
        with _cupy_stream(like, stream):
            return sys.modules["cupy"].empty(tuple(shape), like.dtype)
    if type(like).__module__.partition(".")[0] in ("numba", "numba_cuda"):
        return sys.modules["numba.cuda"].device_array(tuple(shape), like.dtype)
    raise InvalidArgument(
        f"x is a {type(like).__name__} in GPU memory, of which no new array can be made here: "
        "pass out, such as a tensor of PyTorch or an array of CuPy"
    )


def _is_of(module: str, name: str, x: Any) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(x, getattr(loaded, name, ()))


def _torch_stream(x: Any, stream: int | None) -> Any:
    cuda = sys.modules["torch"].cuda
    if stream is None:
        return contextlib.nullcontext()
    return cuda.stream(cuda.ExternalStream(stream, x.device))


@contextlib.contextmanager
def _cupy_stream(x: Any, stream: int | None) -> Any:
    cuda = sys.modules["cupy"].cuda
    with x.device:
        if stream is None:
            yield
        else:
            with cuda.ExternalStream(stream, x.device.id):
                yield
