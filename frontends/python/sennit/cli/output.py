"""Where a command's answer goes: a table for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

from sennit.cli.files import check_writable, write_text

if TYPE_CHECKING:
    from collections.abc import Callable

_STANDARD_OUTPUT = "-"
_FILE_WIDTH = 120  # a file has no width; the cells of our tables fit into this one
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def json_option(command: _Command) -> _Command:
    """Give a command the option `--json FILE`."""
    return click.option(
        "--json",
        "json_file",
        metavar="FILE",
        help="Write the answer as JSON; - is standard output, tables then go to standard error.",
    )(command)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command line to end, which knows the exit code."""
        raise BrokenPipeError


class Output:
    """Tables on standard output, unless that is where the JSON goes."""

    def __init__(self, json_file: str | None) -> None:
        """Write JSON to this file, `-` for standard output, None for nowhere."""
        self._json_file = json_file
        if json_file is not None and json_file != _STANDARD_OUTPUT:
            check_writable(Path(json_file))
        to_stderr = json_file == _STANDARD_OUTPUT
        self.console = _Console(stderr=to_stderr, highlight=False, soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = _FILE_WIDTH

    def write_json(self, document: dict[str, Any]) -> None:
        """Write the answer where `--json` asked for it."""
        if self._json_file is None:
            return
        text = json.dumps(document, indent=2) + "\n"
        if self._json_file == _STANDARD_OUTPUT:
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        write_text(Path(self._json_file), text)
