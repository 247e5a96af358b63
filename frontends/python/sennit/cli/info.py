"""`sennit info`: version, build, and every environment variable."""

from __future__ import annotations

import click
from rich.table import Table
from rich.text import Text

from sennit import _core
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask


@click.command("info")
@json_option
def command(json_file: str | None) -> None:
    """Print version, build, and every variable."""
    output = Output(json_file)
    answer = ask(_core.tool_info)
    output.console.print(f"sennit {answer['version']}")
    for key, value in answer["build"].items():
        output.console.print(f"{key:<14} {value}", markup=False)
    table = Table("variable", "type", "default", "value", "meaning")
    for row in answer["variables"]:
        cells = (row[key] for key in ("name", "type", "default", "value", "text"))
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells))
    output.console.print(table)
    for name in answer["unknown_variables"]:
        output.console.print(f"{name} is set, but is no variable of this version", style="red")
    output.write_json(answer)
