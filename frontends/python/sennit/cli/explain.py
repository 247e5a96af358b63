"""`sennit explain`: which algorithm a collective would use, here or on a described machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE
from sennit.cli.files import read_text
from sennit.cli.machine_choice import machine_arguments
from sennit.cli.names import COLLECTIVE
from sennit.cli.output import Output, json_option
from sennit.cli.sizes import human, microseconds, parse_size
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from rich.console import Console

_MARK = ">"


@click.command("explain")
@click.argument("collective", type=COLLECTIVE, metavar="COLLECTIVE")
@click.option(
    "--machine",
    metavar="NAME|FILE",
    help="GPU ranks of this machine (see `sennit machine --list`); default: host ranks here.",
)
@click.option(
    "--bytes",
    "size",
    required=True,
    callback=parse_size,
    help="Of the vector of broadcast, reduce and all_reduce; of one rank's part otherwise.",
)
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    help="Default: one for each GPU of a node, or 2 host ranks.",
)
@click.option("--ranks-per-gpu", type=click.IntRange(min=1), help="Default: 1.")
@click.option(
    "--path",
    metavar="PATH",
    help="GPU ranks: of the call, such as host. Nodes: cards of messages, such as rail/0+rail/1.",
)
@click.option("--codec", metavar="CODEC", help="GPU ranks: what this codec gains, of float32.")
@click.option("--root", type=click.IntRange(min=0), help="Root of a rooted collective.")
@click.option(
    "--table",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    envvar="SENNIT_TUNING_TABLE",
    metavar="FILE",
    help="Host ranks: what `sennit tune` wrote; default: SENNIT_TUNING_TABLE.",
)
@json_option
def command(
    json_file: str | None,
    collective: str,
    machine: str | None,
    size: int,
    table: Path | None,
    **options: Any,
) -> int:
    """List what could carry COLLECTIVE, what is predicted and measured, and why one is chosen."""
    output = Output(json_file)
    if machine is None:
        answer = _explain_host(collective, size, table, options)
        _print_host(output.console, answer)
    else:
        answer = ask(
            _core.tool_explain,
            collective=collective,
            bytes=size,
            **machine_arguments(machine),
            **options,
        )
        _print_machine(output.console, answer)
    output.write_json(answer)
    return EXIT_DONE


def _explain_host(
    collective: str, size: int, table: Path | None, options: dict[str, Any]
) -> dict[str, Any]:
    if any(options[name] for name in ("root", "ranks_per_gpu", "path", "codec")):
        raise click.UsageError(
            "--root, --ranks-per-gpu, --path and --codec are for ranks of a described machine: "
            "name a --machine (`sennit machine --list`)"
        )
    text = None if table is None else read_text(table)
    return ask(
        _core.tool_explain_host,
        collective=collective,
        bytes=size,
        ranks=options["ranks"] or 2,
        table=text,
        table_file=None if table is None else str(table),
    )


def _print_host(console: Console, answer: dict[str, Any]) -> None:
    choice = answer["choice"]
    chosen = (choice["algorithm"], choice["protocol"])
    console.print(f"choice: {chosen[0]} by {chosen[1]}", markup=False)
    console.print(answer["reason"], markup=False)
    rows = answer["candidates"]
    is_known = any(row["measured_us"] is not None for row in rows)
    if not is_known:
        console.print("nothing is measured yet: `sennit tune` writes a table of this machine")
    table = Table(
        title=f"{answer['collective']} of {human(answer['bytes'])} on {answer['ranks']} host ranks"
    )
    for name in ("", "algorithm", "protocol"):
        table.add_column(name)
    for name in ("measured us", "tile", "predicted us", "tile") if is_known else ():
        table.add_column(name, justify="right")
    for row in rows:
        times = (
            *_time_and_tile(row["measured_us"], row["measured_tile_bytes"]),
            *_time_and_tile(row["predicted_us"], row["predicted_tile_bytes"]),
        )
        table.add_row(
            _MARK if (row["algorithm"], row["protocol"]) == chosen else "",
            row["algorithm"],
            row["protocol"],
            *(times if is_known else ()),
        )
    console.print(table)
    console.print(f"choosing takes {answer['selection_us']:.2f} us", markup=False)
    for row in answer["refused"]:
        console.print(
            f"{row['algorithm']} by {row['protocol']} does not run: {row['why']}", markup=False
        )


def _time_and_tile(us: float | None, tile: int | None) -> tuple[str, str]:
    if us is None or tile is None:
        return "", ""
    return f"{us:.2f}", human(tile) if tile else "default"


def _print_codec(console: Console, nbytes: int, codec: dict[str, Any]) -> None:
    others = ", ".join(f"{row['ratio']:.2f} at {human(row['bytes'])}" for row in codec["by_size"])
    console.print(
        f"by codec {codec['codec']}: {human(codec['coded_bytes'])} in the place of "
        f"{human(nbytes)}, predicted {microseconds(codec['predicted_seconds'])} with "
        f"{microseconds(codec['kernel_seconds'])} for its kernels: "
        f"{codec['ratio']:.2f} times as fast ({others})",
        markup=False,
    )


def _print_machine(console: Console, answer: dict[str, Any]) -> None:
    ranks = answer["gpu_ranks"]
    if answer["choice"] is None:
        console.print("choice: none of these runs")
    elif ranks is None:
        console.print(f"choice: {answer['choice']}", markup=False)
    else:
        predicted = ranks["predicted_seconds"]
        time = "" if predicted is None else f", predicted {microseconds(predicted)}"
        share = f", {ranks['host_share']} % through host memory" if ranks["host_share"] else ""
        paths = f" over {' and '.join(ranks['paths'])}" if ranks["paths"] else ""
        console.print(
            f"choice of GPU ranks: {ranks['algorithm']} by {ranks['protocol']}{paths}{share}{time}",
            markup=False,
        )
    console.print(answer["reason"], markup=False)
    if answer["codec"] is not None:
        _print_codec(console, answer["bytes"], answer["codec"])
    of = "" if ranks is None else "plans of copy engines, which GPU ranks do not choose by: "
    table = Table(
        title=f"{of}{answer['collective']} of {human(answer['bytes'])} on {answer['ranks']} ranks "
        f"of {answer['machine']}"
    )
    table.add_column("")
    table.add_column("algorithm")
    table.add_column("predicted us", justify="right")
    table.add_column("tile", justify="right")
    table.add_column("busiest link")
    table.add_column("busy", justify="right")
    for row in answer["candidates"]:
        is_chosen = ranks is None and row["algorithm"] == answer["choice"]
        table.add_row(
            _MARK if is_chosen else "",
            row["algorithm"],
            f"{row['predicted_seconds'] * 1e6:.2f}",
            human(row["tile_bytes"]),
            row["busiest_link"],
            f"{row['busiest_use'] * 100:.0f} %",
        )
    console.print(table)
    for row in answer["refused"]:
        console.print(f"{row['algorithm']} does not run: {row['why']}", markup=False)
