"""`sennit explain`: which algorithm a collective would use on a described machine, and why."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE
from sennit.cli.machine_choice import machine_arguments
from sennit.cli.names import COLLECTIVES
from sennit.cli.output import Output, json_option
from sennit.cli.sizes import human, parse_size
from sennit.cli.tools import ask


@click.command("explain")
@click.argument("collective", type=click.Choice(COLLECTIVES), metavar="COLLECTIVE")
@click.option("--machine", required=True, metavar="NAME|FILE", help="See `sennit machine --list`.")
@click.option(
    "--bytes",
    "size",
    required=True,
    callback=parse_size,
    help="Of the vector of broadcast, reduce and all_reduce; of one rank's part otherwise.",
)
@click.option("--ranks", type=click.IntRange(min=1), help="Default: one for each GPU of a node.")
@click.option("--ranks-per-gpu", type=click.IntRange(min=1), help="Default: 1.")
@click.option("--root", type=click.IntRange(min=0), help="Root of a rooted collective.")
@json_option
def command(json_file: str | None, collective: str, machine: str, size: int, **options: Any) -> int:
    """Rank the algorithms of COLLECTIVE by what is predicted, and say why the first one wins."""
    output = Output(json_file)
    answer = ask(
        _core.tool_explain,
        collective=collective,
        bytes=size,
        **machine_arguments(machine),
        **options,
    )
    table = Table(
        title=f"{collective} of {human(size)} on {answer['ranks']} ranks of {answer['machine']}"
    )
    table.add_column("algorithm")
    table.add_column("predicted us", justify="right")
    table.add_column("tile", justify="right")
    table.add_column("busiest link")
    table.add_column("busy", justify="right")
    for row in answer["candidates"]:
        table.add_row(
            row["algorithm"],
            f"{row['predicted_seconds'] * 1e6:.2f}",
            human(row["tile_bytes"]),
            row["busiest_link"],
            f"{row['busiest_use'] * 100:.0f} %",
        )
    output.console.print(table)
    output.console.print(answer["reason"], markup=False)
    for row in answer["refused"]:
        output.console.print(f"{row['algorithm']} does not run: {row['why']}", markup=False)
    output.write_json(answer)
    return EXIT_DONE
