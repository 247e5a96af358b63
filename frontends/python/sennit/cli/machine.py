"""`sennit machine`: what the library sees of this machine."""

from __future__ import annotations

import json

import click

from sennit import _core
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask


@click.command("machine")
@json_option
def command(json_file: str | None) -> None:
    """Describe this machine: devices, links, paths."""
    output = Output(json_file)
    answer = ask(_core.tool_machine)
    for key, value in answer.items():
        shown = value if isinstance(value, str) else json.dumps(value)
        output.console.print(f"{key:<14} {shown}", markup=False)
    output.write_json(answer)
