"""The names that options take: collectives, element types, operators."""

from __future__ import annotations

import difflib

import click
from click.shell_completion import CompletionItem

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
REDUCE_OPS = _core.REDUCE_OPS


class _CollectiveName(click.ParamType[str]):
    """A collective by its name here, or as NCCL, MPI and their benchmarks write it."""

    name = "COLLECTIVE"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Give the name here."""
        known = _COLLECTIVES_BY_LETTERS.get(_letters(value))
        if known is not None:
            return known
        close = difflib.get_close_matches(_letters(value), _COLLECTIVES_BY_LETTERS, n=1)
        hint = f"; did you mean {_COLLECTIVES_BY_LETTERS[close[0]]}?" if close else ""
        raise click.BadParameter(f"{value!r} is none of {', '.join(COLLECTIVES)}{hint}", ctx, param)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The names that begin so."""
        return [CompletionItem(name) for name in COLLECTIVES if name.startswith(incomplete)]


def _letters(name: str) -> str:
    """all_reduce, all-reduce, AllReduce and MPI_Allreduce have the same letters."""
    letters = "".join(letter for letter in name.lower() if letter.isalnum())
    for prefix in ("mpi", "nccl", "osu"):
        letters = letters.removeprefix(prefix)
    return letters.removesuffix("perf")


_COLLECTIVES_BY_LETTERS = {_letters(name): name for name in COLLECTIVES} | {
    "bcast": "broadcast",
    "sendrecv": "send_recv",
    "reducescatterblock": "reduce_scatter",
}
COLLECTIVE = _CollectiveName()

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
