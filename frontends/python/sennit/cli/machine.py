"""`sennit machine`: what the library sees of this machine, and the machines it knows of."""

from __future__ import annotations

import json
from pathlib import Path

import click

from sennit import _core
from sennit.cli.failure import EXIT_DONE
from sennit.cli.files import parse_svg, write_text
from sennit.cli.hwloc import machine_text
from sennit.cli.machine_choice import machine_arguments
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask


@click.command("machine")
@click.option("--list", "list_all", is_flag=True, help="The machines that are known by name.")
@click.option("--file", "machine", metavar="NAME|FILE", help="One of them, or a file of your own.")
@click.option(
    "--hwloc",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.xml",
    help="Make a description from hwloc's (lstopo FILE.xml).",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_svg,
    metavar="FILE.svg",
    help="Draw the machine that --file or --hwloc names.",
)
@json_option
def command(
    json_file: str | None,
    list_all: bool,
    machine: str | None,
    hwloc: Path | None,
    picture: Path | None,
) -> int:
    """Describe this machine, or one that need not be here: devices, links, paths."""
    output = Output(json_file)
    if list_all:
        answer = ask(_core.tool_machines)
        for row in answer["machines"]:
            output.console.print(f"{row['name']:<14} {row['title']}", markup=False)
    elif machine is not None or hwloc is not None:
        arguments = (
            machine_arguments(machine)
            if machine is not None
            else {"machine_text": machine_text(hwloc), "machine_file": str(hwloc)}
        )
        answer = ask(_core.tool_topology, **arguments)
        output.console.print(answer["text"], markup=False, end="")
        if picture is not None:
            write_text(picture, answer["svg"])
    elif picture is not None:
        raise click.UsageError("--picture draws the machine that --file or --hwloc names")
    else:
        answer = ask(_core.tool_machine, network=True)
        for key, value in answer.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            output.console.print(f"{key:<14} {shown}", markup=False)
    output.write_json(answer)
    return EXIT_DONE
