"""What an all_reduce of GPU ranks may go on to do with its sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sennit import _core
from sennit._core import Buffer, CallOptions, InvalidArgument, buffer_of


@dataclass(frozen=True)
class RmsNorm:
    """Adds the sum of an all_reduce to a residual and normalises each row of it.

    In place of three kernels, and for small messages in that of the all_reduce itself::

        residual = residual + sum
        out = residual / sqrt(mean(residual * residual) + epsilon) * weight
        quantized = out / scale

        comm.all_reduce(x, out, rms_norm=sennit.RmsNorm(weight, residual=residual))

    A row is the last dimension of x, of float16 or bfloat16: a multiple of 16 bytes. Arrays lie on
    the GPU of the rank and begin on boundaries of 16 bytes. Mean and factors are computed in
    float32.

    Attributes:
        weight: Array of a row; None: ones.
        epsilon: Added to the mean of the squares.
        residual: Array of as many elements as x, which is overwritten; None: zeros.
        quantized: Array of float8_e4m3fn of as many elements as x, limited to 448; None: none.
        scale: Array of one float32; None: 1.
    """

    weight: Any = None
    epsilon: float = 1e-6
    residual: Any = None
    quantized: Any = None
    scale: Any = None

    def added_to(self, options: CallOptions, x: Any) -> CallOptions:
        """The options of a call whose input is x, with this."""
        shape = tuple(getattr(x, "shape", ())) or buffer_of(x, "x", False, options.stream).shape
        if not shape:
            raise InvalidArgument("x has no dimensions, so rms_norm finds no rows in it")

        def buffer(name: str, writable: bool) -> Buffer | None:
            array = getattr(self, name)
            return None if array is None else buffer_of(array, name, writable, options.stream)

        return options.with_rms_norm(
            _core.RmsNorm(
                shape[-1],
                self.epsilon,
                buffer("residual", True),
                buffer("weight", False),
                buffer("quantized", True),
                buffer("scale", False),
            )
        )
