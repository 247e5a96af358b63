"""The names that options take: collectives, element types, operators."""

from __future__ import annotations

import click

from sennit import _core
from sennit.cli.tools import ask

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

_DTYPE_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}
_DTYPE_ROWS = {row["name"]: row for row in ask(_core.tool_info)["dtypes"]}


def element_bytes(dtype: str) -> int:
    """Size of an element."""
    return int(_DTYPE_ROWS[dtype]["bytes"])


def has_operator(dtype: str, op: str) -> bool:
    """Whether elements of this type can be reduced so."""
    return op in _DTYPE_ROWS[dtype]["operators"]


def parse_dtype(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Give the name in the C ABI of an element type named here or by nccl-tests, or `all`."""
    name = _DTYPE_ALIASES.get(value, value)
    if name not in (*DTYPES, "all"):
        raise click.BadParameter(f"{value!r} is none of {', '.join(DTYPES)}, all", ctx, param)
    return name
