"""Inputs that encode rank and index, and what a collective must make of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "int8", "uint64")
"""Types in which these inputs and their sums are exact or wrap; test_elements.py has the others."""

REDUCTIONS = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def contribution(rank: int, count: int, dtype: str) -> Array:
    """Element i of a rank: its rank in the millions, i below; exact in float32 below 16 ranks."""
    scale = 64 if dtype == "uint8" else 1_000_000
    return (np.arange(count, dtype=np.int64) + rank * scale).astype(dtype)


def contributions(size: int, count: int, dtype: str) -> Array:
    """The inputs of all ranks, one a row."""
    return np.stack([contribution(rank, count, dtype) for rank in range(size)])


def reduced(size: int, count: int, dtype: str, op: str) -> Array:
    """The element-wise reduction of all ranks' inputs; integers wrap."""
    result: Array = REDUCTIONS[op].reduce(contributions(size, count, dtype), axis=0, dtype=dtype)
    return result
