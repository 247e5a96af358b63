"""The names that options take: collectives, element types, operators."""

from __future__ import annotations

import click

from sennit import _core

COLLECTIVES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
    "barrier",
    "send_recv",
)
PER_RANK = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
"""Collectives whose buffer is one part a rank, so that its size is a multiple of the ranks."""
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("reduce", "broadcast", "gather", "scatter")

DTYPES = _core.DTYPES
REDUCE_OPS = tuple(_core.REDUCE_OPS)

_DTYPE_ALIASES = {"float": "float32", "double": "float64", "int": "int32"}


def parse_dtype(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Give the name in the C ABI of an element type named here or by nccl-tests, or `all`."""
    name = _DTYPE_ALIASES.get(value, value)
    if name not in (*DTYPES, "all"):
        raise click.BadParameter(f"{value!r} is none of {', '.join(DTYPES)}, all", ctx, param)
    return name
