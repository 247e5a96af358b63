"""Measures what codecs lose and how fast one core runs them, and writes one result file.

    python bench/codecs.py --out out/codecs.json

Data by seed, each of 2^22 values (complex: 2^21):
  normal      Gaussian numbers, as gradients and activations are nearly
  smooth      a field along one axis: 24 waves of falling amplitude, 4 to 500 values long
  complex     smooth lines after a Fourier transform of each 512 values, as 3-D FFTs send them
  sparse      Gaussian numbers, 40 % of them zeros, as activations behind a ReLU
Times are CPU times of one thread in the C functions, the least of 50 turns, of 2^18 values, which
stay in cache.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sennit
from sennit.cli.bench_document import document
from sennit.cli.codec_errors import measure

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import result_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

COUNT = 1 << 22
TIMED_COUNT = 1 << 18
TURNS = 50
DTYPES = {"float32": 0, "float64": 1, "float16": 11, "bfloat16": 12}
"""Values in the C ABI."""


def normal() -> NDArray[np.float64]:
    """Gaussian numbers."""
    return np.random.default_rng(1).standard_normal(COUNT)


def smooth() -> NDArray[np.float64]:
    """A sum of waves, the longer the stronger."""
    random = np.random.default_rng(2)
    at = np.arange(COUNT)
    field = np.zeros(COUNT)
    for length in np.geomspace(4, 500, 24):
        wave = random.standard_normal() * (length / 500) ** (5 / 6)
        field += wave * np.sin(2 * np.pi * at / length + random.uniform(0, 2 * np.pi))
    return field


def sparse() -> NDArray[np.float64]:
    """Gaussian numbers and zeros."""
    return np.where(np.random.default_rng(3).random(COUNT) < 0.4, 0, normal())


def transformed() -> NDArray[np.complex128]:
    """Lines of a smooth field after a Fourier transform of each."""
    return np.fft.fft(smooth()[: COUNT // 2].reshape(-1, 512)).ravel()


def bfloat16(x: NDArray[np.float64]) -> sennit.Typed:
    """The values as bfloat16, rounded to the nearest."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return sennit.typed(rounded.astype(np.uint16), "bfloat16")


def arrays() -> dict[str, dict[str, Any]]:
    """By kind of data and element type."""
    return {
        "normal": {
            "float32": normal().astype(np.float32),
            "float64": normal(),
            "float16": normal().astype(np.float16),
            "bfloat16": bfloat16(normal()),
        },
        "smooth": {"float32": smooth().astype(np.float32), "float64": smooth()},
        "complex": {"complex64": transformed().astype(np.complex64)},
        "sparse": {"float32": sparse().astype(np.float32), "bfloat16": bfloat16(sparse())},
    }


def error_rows() -> list[dict[str, Any]]:
    """What each codec loses of each array."""
    return [
        {"kind": "error", "data": data, "dtype": dtype} | asdict(errors)
        for data, by_type in arrays().items()
        for dtype, x in by_type.items()
        for errors in measure(x)
    ]


class Coder:
    """The C functions, without the copies that Python makes of what they write."""

    def __init__(self) -> None:
        """Opens the library of the package."""
        library = next(Path(sennit.__path__[0], "lib").glob("libsennit.so.*"))
        self._library = ctypes.CDLL(str(library))
        self._library.sennit_last_error_message.restype = ctypes.c_char_p

    def time(self, codec: str, x: NDArray[Any], dtype_value: int) -> tuple[float, float]:
        """Seconds of encoding and of decoding, which overwrites x."""
        name, count, coded_bytes = codec.encode(), ctypes.c_size_t(x.size), ctypes.c_size_t()
        values = ctypes.c_void_p(x.ctypes.data)
        room = bytearray(16 * x.size)
        coded = (ctypes.c_char * len(room)).from_buffer(room)

        def encode() -> int:
            return int(
                self._library.sennit_tool_encode(
                    *(name, dtype_value, values, count),
                    *(coded, ctypes.c_size_t(len(room)), ctypes.byref(coded_bytes)),
                )
            )

        def decode() -> int:
            return int(
                self._library.sennit_tool_decode(
                    name, dtype_value, coded, coded_bytes, values, count
                )
            )

        return self._least(encode), self._least(decode)

    def _least(self, call: Callable[[], int]) -> float:
        best = float("inf")
        for _ in range(TURNS):
            begin = time.thread_time()
            status = call()
            best = min(best, time.thread_time() - begin)
            if status != 0:
                raise RuntimeError(self._library.sennit_last_error_message().decode())
        return best


def time_row(coder: Coder, codec: str, dtype: str, x: Any) -> dict[str, Any]:
    """Encoding and decoding on one core, in GB/s of values that are not encoded."""
    bits = x.array if isinstance(x, sennit.Typed) else x
    values = bits[:TIMED_COUNT].copy()
    encoding, decoding = coder.time(codec, values, DTYPES[dtype])
    return {
        "kind": "time",
        "codec": codec,
        "dtype": dtype,
        "bytes": values.nbytes,
        "encode_GBps": values.nbytes / encoding * 1e-9,
        "decode_GBps": values.nbytes / decoding * 1e-9,
    }


def time_rows(errors: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """On Gaussian numbers, each codec with each type that it takes."""
    coder, normal_arrays = Coder(), arrays()["normal"]
    return [
        time_row(coder, row["codec"], row["dtype"], normal_arrays[row["dtype"]])
        for row in errors
        if row["data"] == "normal"
    ]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    errors = error_rows()
    whole = document([*errors, *time_rows(errors)])
    program = {"schema": whole["schema"], "program": "python bench/codecs.py"}
    result_files.write(arguments.out, program | whole)


if __name__ == "__main__":
    main()
