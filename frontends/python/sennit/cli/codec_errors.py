"""What a codec loses of an array: errors, their bias, and the bound that no block may exceed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sennit import _core, codecs
from sennit.cli.tools import ask
from sennit.elements import bits_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Reals = NDArray[np.float64]


@dataclass
class CodecErrors:
    """One codec on one array. Infinities and NaNs of the array count in `not_finite` alone.

    Attributes:
        codec: Its name.
        coded_bytes: Length of the coded array.
        bits: Of a value, as it is in the array.
        ratio: Bytes of the array over coded bytes.
        rms: Root mean square of the errors, as a part of that of the values.
        bias: Mean of the errors, as a part of the root mean square of the values.
        worst: Largest error, as a part of the largest magnitude in its block.
        bound: What `worst` never exceeds in blocks of ordinary magnitude.
        not_finite: Values that are finite in the array and not finite when decoded.
        outside: Blocks of ordinary magnitude in which an error exceeds the bound: a defect.
    """

    codec: str
    coded_bytes: int
    bits: float
    ratio: float
    rms: float
    bias: float
    worst: float
    bound: float
    not_finite: int
    outside: int


_ORDINARY = {"float16": (2.0**-14, 2.0**14)}
"""Magnitudes from which on nothing is flushed, and below which nothing overflows, by type."""
_ORDINARY_FLOAT32 = (2.0**-98, 2.0**118)
_ORDINARY_FLOAT64 = (2.0**-960, 2.0**1010)


def _ordinary(dtype: str) -> tuple[float, float]:
    wide = dtype in ("float64", "complex128")
    return _ORDINARY.get(dtype, _ORDINARY_FLOAT64 if wide else _ORDINARY_FLOAT32)


def _parts(x: Any) -> Reals:
    """The real numbers of an array, one element's side by side, as float64."""
    bits = bits_of(x)
    if bits is not None:  # the upper half of a float32
        return (bits.array.astype(np.uint32) << 16).view(np.float32).astype(np.float64).ravel()
    flat = np.ascontiguousarray(x).ravel()
    if flat.dtype.kind == "c":
        flat = flat.view(f"f{flat.dtype.itemsize // 2}")
    return flat.astype(np.float64)


def _blocks(parts: Reals, streams: int, block_values: int) -> Reals:
    """The parts as the codec has them in blocks, a row a block; zeros fill the last one."""
    separate = parts.reshape(-1, streams).T
    padding = -separate.shape[1] % block_values
    return np.pad(separate, ((0, 0), (0, padding))).reshape(-1, block_values)


def _root_mean_square(values: Reals) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _judge(codec: str, x: Any, row: dict[str, Any]) -> CodecErrors:
    buffer = _core.buffer_of(x, "x", writable=False)
    coded = codecs.encode(x, codec)
    values = _parts(x)
    decoded = _parts(codecs.decode(coded, codec, buffer.dtype, buffer.count))
    are_finite = np.isfinite(values)
    are_lost = are_finite & ~np.isfinite(decoded)
    values = np.where(are_finite, values, 0)
    errors = np.where(are_finite & ~are_lost, decoded - values, 0)
    unit = float(np.abs(values).max()) or 1.0  # so that squares do not overflow
    size = _root_mean_square(values / unit) * unit or 1.0
    magnitudes, block_errors = (
        _blocks(np.abs(each), row["streams"], row["block_values"]).max(axis=1)
        for each in (values, errors)
    )
    least, largest = _ordinary(buffer.dtype)
    is_ordinary = (magnitudes >= least) & (magnitudes <= largest)
    relative = block_errors[is_ordinary] / magnitudes[is_ordinary]
    return CodecErrors(
        codec=codec,
        coded_bytes=len(coded),
        bits=8 * len(coded) / buffer.count,
        ratio=buffer.nbytes / len(coded),
        rms=_root_mean_square(errors / size),
        bias=float(np.mean(errors / size)),
        worst=float(relative.max(initial=0.0)),
        bound=row["bound"],
        not_finite=int(are_lost.sum()),
        outside=int((relative > row["bound"]).sum()),
    )


def measure(x: Any, wanted: str | None = None) -> Iterator[CodecErrors]:
    """What each codec that takes the array, or the one that is wanted, makes of it.

    Args:
        x: An array of at least one value, or bits of a type that NumPy lacks (`sennit.typed`).
        wanted: The name of a codec; it is refused by name if it does not take the type.
    """
    dtype = _core.buffer_of(x, "x", writable=False).dtype
    if wanted is not None:
        codecs.encode(x, wanted)  # refuses by name what it does not take
    for codec in ask(_core.tool_codecs)["codecs"]:
        rows = {row["dtype"]: row for row in codec["dtypes"]}
        if dtype in rows and wanted in (None, codec["name"]):
            yield _judge(codec["name"], x, rows[dtype])
