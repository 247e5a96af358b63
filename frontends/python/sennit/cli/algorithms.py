"""`sennit algorithms`: what can be asked for by name."""

from __future__ import annotations

import click
from rich.table import Table

from sennit import _core
from sennit.cli.names import COLLECTIVE
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask


@click.command("algorithms")
@click.argument("collective", type=COLLECTIVE, metavar="[COLLECTIVE]", required=False)
@json_option
def command(json_file: str | None, collective: str | None) -> None:
    """List the algorithms of COLLECTIVE, or of all."""
    output = Output(json_file)
    answer = ask(_core.tool_algorithms, collective=collective)
    table = Table("collective", "algorithm", "in place", "summary", "source")
    for row in answer["algorithms"]:
        in_place = "yes" if row["in_place"] else "no"
        table.add_row(row["collective"], row["name"], in_place, row["summary"], row["source"])
    output.console.print(table)
    output.write_json(answer)
