"""All_reduce, residual and RMS norm as one operator of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from sennit.torch import extension

if TYPE_CHECKING:
    from torch import Tensor


def all_reduce_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    epsilon: float = 1e-6,
    group: dist.ProcessGroup | str | None = None,
) -> Tensor:
    """Add the sum of x over all ranks to the residual, and normalise that.

    In place of ::

        dist.all_reduce(x, group=group)
        residual += x
        return torch.nn.functional.rms_norm(residual, x.shape[-1:], weight, epsilon)

    which it also does, step by step, on CPUs and with other backends. With backend `sennit` on GPUs
    it is one call, on the current stream; small messages take one kernel. There the mean of the
    squares is added up in another order than in PyTorch, so that results may differ in the last
    bit. It can be captured in graphs, and torch.compile keeps it whole; where no group of backend
    `sennit` has been made, call it once before you compile. On GPUs rows are a multiple of 16
    bytes, and tensors begin on boundaries of 16.

    Args:
        x: The contribution of this rank, [..., width]: float16 or bfloat16 on GPUs, contiguous. It
            is left as it is.
        residual: Of the shape of x; overwritten with the sum.
        weight: [width].
        epsilon: Added to the mean of the squares.
        group: Or its `group_name`; None: all ranks.

    Returns:
        The normalised rows, of the shape of x.
    """
    result: Tensor = _operators().all_reduce_rms_norm(x, residual, weight, epsilon, _name(group))
    return result


def all_reduce_rms_norm_fp8(
    x: Tensor,
    residual: Tensor,
    weight: Tensor,
    scale: Tensor,
    epsilon: float = 1e-6,
    group: dist.ProcessGroup | str | None = None,
) -> tuple[Tensor, Tensor]:
    """The same, and the rows divided by `scale` in float8_e4m3fn, limited to 448.

    Args:
        x: As in `all_reduce_rms_norm`.
        residual: As there.
        weight: As there.
        scale: One float32 on the device of x.
        epsilon: As there.
        group: As there.

    Returns:
        The normalised rows, and what they are quantized.
    """
    results: tuple[Tensor, Tensor] = _operators().all_reduce_rms_norm_fp8(
        x, residual, weight, epsilon, scale, _name(group)
    )
    return results


def _operators() -> Any:
    # A compiler that traces a program finds it loaded by a process group, or says that it is not.
    if not torch.compiler.is_compiling():
        extension.load()
    return torch.ops.sennit


def _name(group: dist.ProcessGroup | str | None) -> str:
    if isinstance(group, str):
        return group
    chosen = dist.group.WORLD if group is None else group
    if chosen is None:
        raise ValueError("all_reduce_rms_norm: there is no process group; make one first")
    name: str = chosen.group_name
    return name
