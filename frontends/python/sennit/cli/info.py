"""`sennit info`: version, build, and every environment variable."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

import sennit
from sennit import _core
from sennit.cli.bench_document import commit
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command("info")
@json_option
def command(json_file: str | None) -> None:
    """Print version, build, and every variable."""
    output = Output(json_file)
    answer = ask(_core.tool_info)
    output.console.print(f"sennit {answer['version']}")
    places = _places()
    for key, value in (answer["build"] | places).items():
        output.console.print(f"{key:<14} {value}", markup=False)
    table = Table("variable", "type", "default", "value", "meaning")
    for row in answer["variables"]:
        cells = (row[key] for key in ("name", "type", "default", "value", "text"))
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in cells))
    output.console.print(table)
    for name in answer["unknown_variables"]:
        output.console.print(f"{name} is set, but is no variable of this version", style="red")
    output.write_json(answer | {"places": places})


def _places() -> dict[str, str]:
    """What a report of a defect needs as well as the version: where everything lies."""
    package = Path(sennit.__file__).parent
    return {
        "commit": commit() or "of a package, unknown",
        "package": str(package),
        "rank program": str(package / "bin" / "sennit-rank"),
        "NCCL library": _path_of(sennit.nccl_library),
        "MPI library": _path_of(sennit.mpi_library),
        "Python": f"{platform.python_version()}, {sys.executable}",
        "system": platform.platform(),
    }


def _path_of(library: Callable[[], Path]) -> str:
    try:
        return str(library())
    except FileNotFoundError:
        return "none"
