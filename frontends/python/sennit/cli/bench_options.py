"""The options of `sennit bench`; the short ones mean what they mean in nccl-tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sennit import codecs
from sennit.cli import names
from sennit.cli.plot import parse_plot
from sennit.cli.schedule_file import schedule_option
from sennit.cli.sizes import parse_size
from sennit.spawning import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def _refuse_ranks(_: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Say what nccl-tests' options for the number of GPUs are called here."""
    if value is not None:
        options = " and ".join(parameter.opts)
        raise click.UsageError(f"{options} are of nccl-tests; pass --ranks, the number of all")


def _parse_root(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "rotate":
        return value
    if not value.isdigit():
        raise click.BadParameter(f"{value!r} is neither a rank nor 'rotate'", ctx, param)
    return int(value)


def _parse_pair(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    if value is None:
        return None
    ends = value.split(":")
    if len(ends) != 2 or not all(end.isdigit() for end in ends) or ends[0] == ends[1]:
        raise click.BadParameter(
            f"{value!r} is not of the form A:B, two ranks such as 0:1", ctx, param
        )
    return [int(end) for end in ends]


def _parse_shares(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    shares = value.split(",")
    if not all(
        share == "dynamic" or (share.isdigit() and 1 <= int(share) <= 100) for share in shares
    ):
        raise click.BadParameter(
            f"{value!r} is not percent from 1 to 100, like 6 or 4,8, nor dynamic", ctx, param
        )
    return tuple(share if share == "dynamic" else str(int(share)) for share in shares)


def refuse_unknown_codec(codec: str | None) -> None:
    """Refuse a codec that there is not.

    Raises:
        click.UsageError: There is none of this name.
    """
    known = (*codecs.names(), "none")
    if codec is not None and codec not in known:
        raise click.UsageError(
            f"there is no codec {codec!r} for --codec; there are: {', '.join(known)}"
        )


def refuse_pair_beyond(ranks: int, pair: list[int] | None) -> None:
    """Refuse a pair that has a rank which is not there.

    Raises:
        click.UsageError: It has.
    """
    if pair is not None and max(pair) >= ranks:
        raise click.UsageError(
            f"--pair {pair[0]}:{pair[1]}: the {ranks} ranks are 0 to {ranks - 1}"
        )


_OPTIONS = (
    click.argument(
        "collectives",
        type=names.COLLECTIVE,
        nargs=-1,
        metavar="[COLLECTIVE]...",
    ),
    click.option(
        "-b",
        "--begin",
        callback=parse_size,
        metavar="SIZE",
        default="8",
        show_default=True,
        help="Smallest size.",
    ),
    click.option(
        "-e",
        "--end",
        callback=parse_size,
        metavar="SIZE",
        default="64M",
        show_default=True,
        help="Largest size.",
    ),
    click.option(
        "-f",
        "--factor",
        type=click.IntRange(min=2),
        metavar="N",
        default=2,
        show_default=True,
        help="From one size to the next.",
    ),
    click.option(
        "-n",
        "--iterations",
        type=click.IntRange(min=1),
        metavar="N",
        default=20,
        show_default=True,
        help="Timed samples of each size.",
    ),
    click.option(
        "-w",
        "--warmup",
        type=click.IntRange(min=0),
        metavar="N",
        default=5,
        show_default=True,
        help="Untimed calls before them.",
    ),
    click.option(
        "-c",
        "check_count",
        type=click.IntRange(min=0),
        metavar="N",
        help="0 is --no-check, else --check.",
    ),
    click.option(
        "--check/--no-check",
        default=True,
        show_default=True,
        help="Check every element on every rank at the first, a middle and the last sample.",
    ),
    click.option(
        "-d",
        "--dtype",
        callback=names.parse_dtype,
        metavar="DTYPE",
        default="float32",
        show_default=True,
        help="Element type, or all.",
    ),
    click.option(
        "-o",
        "--op",
        type=click.Choice([*names.REDUCE_OPS, "all"]),
        default="sum",
        show_default=True,
        help="Reduce operator, or all.",
    ),
    click.option(
        "-r",
        "--root",
        callback=_parse_root,
        metavar="R|rotate",
        help="Root of rooted collectives; rotate takes the next one at each call. Default: 0, "
        "rotate with --against.",
    ),
    click.option(
        "--ranks",
        type=click.IntRange(min=1, max=MOST_RANKS),
        metavar="N",
        help="Default: one a core, at least 2, at most 8; with --executor cuda all GPUs.",
    ),
    click.option("-g", "-t", "of_others", hidden=True, expose_value=False, callback=_refuse_ranks),
    click.option(
        "--executor",
        type=click.Choice(["host", "cuda"]),
        default="host",
        show_default=True,
        help="Where the ranks' buffers are.",
    ),
    click.option(
        "--algorithm", metavar="NAME", help="By name (see `sennit algorithms`); default: chosen."
    ),
    schedule_option,
    click.option(
        "--paths",
        metavar="NAMES",
        help="Only this path: shm or cma; or both: shm,cma (see SENNIT_PATH_POLICY). Between nodes "
        "cards: rail/0,rail/1. GPUs: nvlink, device (ranks of one GPU) or host; or one of them "
        "and host.",
    ),
    click.option(
        "--share",
        callback=_parse_shares,
        metavar="N[,N]...",
        help="GPUs: percent through host memory beside NVLink, or dynamic, which follows the load; "
        "several with --against shares.",
    ),
    click.option(
        "--beside",
        type=click.Choice(["matmul", "copy"]),
        help="GPUs: time calls together with products of cuBLAS or copies of memory, and alone.",
    ),
    click.option(
        "--load-sms",
        type=click.IntRange(min=1),
        metavar="N",
        help="Of --beside matmul: products for N SMs; default: for all.",
    ),
    click.option(
        "--sm-budget",
        type=click.IntRange(min=1, max=128),
        metavar="N",
        help="GPUs: thread blocks of kernels for each direction, Sennit's and NCCL's.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(
            ["slots", "direct", "ll", "ll128", "direct_put", "direct_get", "copy_engines"]
        ),
        help="slots or direct; GPUs: all but direct. Default: chosen.",
    ),
    click.option(
        "--tile-bytes",
        callback=parse_size,
        metavar="SIZE",
        help="Bytes of a block in one tile; default: chosen.",
    ),
    click.option(
        "--codec",
        metavar="NAME",
        help="By name (see `sennit codec`), on random data, with the error.",
    ),
    click.option("--in-place", is_flag=True, help="Send and receive in the same buffer."),
    click.option(
        "--mode",
        type=click.Choice(["call", "graph", "stream"]),
        help="How calls are made; call: waited for, one by one.  [default: call, on GPUs graph]",
    ),
    click.option(
        "--registered/--no-registered",
        default=None,
        help="GPUs: on the memory of NCCL's symmetric windows, beside these alone; or without "
        "them.  [default: on plain memory, beside both]",
    ),
    click.option(
        "--against",
        multiple=True,
        metavar="NAME",
        help="Measure a rival in the same run: mpi (all that are here), mpich, openmpi, gloo. "
        "GPUs: nccl (always), and of Sennit's own ways shares or engines.",
    ),
    click.option(
        "--seed", type=int, metavar="N", default=1, show_default=True, help="Of the data."
    ),
    click.option(
        "--max-seconds",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="Begin no row later, and end the row that is measured then.",
    ),
    click.option("--pin/--no-pin", default=True, show_default=True, help="Bind ranks to cores."),
    click.option("--pair", callback=_parse_pair, metavar="A:B", help="send_recv: this pair alone."),
    click.option("--bidirectional", is_flag=True, help="send_recv: both ways at once."),
    click.option(
        "--window",
        type=click.IntRange(min=1),
        metavar="N",
        default=1,
        show_default=True,
        help="send_recv: messages on their way at once.",
    ),
    click.option(
        "-N",
        "--cycles",
        type=click.IntRange(min=1),
        metavar="N",
        default=1,
        show_default=True,
        help="Go through all sizes so often.",
    ),
    click.option(
        "--plot",
        "plot_file",
        type=click.Path(path_type=Path),
        callback=parse_plot,
        metavar="FILE",
        help="Draw to this file.",
    ),
)


def bench_options(command: _Command) -> _Command:
    """Give a command the argument and the options of a benchmark, in the order of the table."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
