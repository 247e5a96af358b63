"""Element types beyond NumPy's own, and operators that carry an element."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sennit._core import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CARRIERS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}
"""Types that NumPy lacks, and what it has of the same size."""


class Typed(NamedTuple):
    """Elements that NumPy has no type for, as their bits; made by `typed`."""

    array: NDArray[Any]
    dtype: str


def typed(array: NDArray[Any], dtype: str) -> Typed:
    """Say of what type the bits in an array are; the result may be passed as a buffer.

    Args:
        array: Unsigned integers of 16 or 8 bits.
        dtype: "bfloat16", "float8_e4m3fn" or "float8_e5m2".
    """
    if dtype not in _CARRIERS or array.dtype != _CARRIERS[dtype]:
        rule = ", ".join(f"{name} in {np.dtype(bits)}" for name, bits in _CARRIERS.items())
        raise InvalidArgument(f"{dtype!r} in {array.dtype} is not one of: {rule}")
    return Typed(array, dtype)


def bits_of(x: Any) -> Typed | None:
    """The bits of x where it is `Typed` or an array of ml_dtypes, which export no buffer."""
    if isinstance(x, Typed):
        return x
    if isinstance(x, np.ndarray) and x.dtype.name in _CARRIERS:
        return Typed(x.view(_CARRIERS[x.dtype.name]), x.dtype.name)
    return None


def carrier_of(dtype: str) -> str:
    """The name of the type in which NumPy and CuPy have the bits of a type of `typed`."""
    return np.dtype(_CARRIERS[dtype]).name


def empty(shape: Any, dtype: str, like: Any) -> Any:
    """A new array of the type of `like`."""
    if isinstance(like, Typed):
        return Typed(np.empty(shape, _CARRIERS[dtype]), dtype)
    if isinstance(like, np.ndarray):
        return np.empty(shape, like.dtype)
    return np.empty(shape, _numpy_type(dtype, "pass out"))


class PremulSum(NamedTuple):
    """The sum of contributions, each first multiplied by the factor of its rank."""

    factor: Any

    def element(self, dtype: str) -> bytes:
        """The factor as one element of the type of a call."""
        bits = bits_of(self.factor)
        if bits is not None:
            if bits.dtype != dtype or bits.array.size != 1:
                raise InvalidArgument(f"the factor of premulsum is not one element of {dtype}")
            return bits.array.tobytes()
        numpy_type = _numpy_type(dtype, f"pass a factor made by sennit.typed(..., {dtype!r})")
        try:
            element = np.array(self.factor, numpy_type)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgument(f"the factor of premulsum is no {dtype}: {error}") from error
        if element.size != 1 or (numpy_type.kind in "iu" and element != self.factor):
            raise InvalidArgument(f"the factor {self.factor!r} of premulsum is no {dtype}")
        return element.tobytes()


def premulsum(factor: Any) -> PremulSum:
    """An operator: the sum of contributions, each first multiplied by this rank's factor.

    A product is rounded to the type of the call before it is added. Each rank may have a factor of
    its own.

    Args:
        factor: A number, which is rounded to the type of the call, or one element of that type.
    """
    return PremulSum(factor)


def _numpy_type(dtype: str, otherwise: str) -> np.dtype[Any]:
    if dtype in _CARRIERS:
        try:
            extended: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), dtype))
        except ImportError:
            raise InvalidArgument(
                f"NumPy has no {dtype} without the package ml_dtypes; {otherwise}"
            ) from None
        return extended
    return np.dtype(dtype)
