"""`--schedule FILE`: a schedule of the user's own, where a command takes an algorithm by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sennit.cli.files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def schedule_option(command: _Command) -> _Command:
    """Give a command the option `--schedule FILE.json`."""
    return click.option(
        "--schedule",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE.json",
        help="A schedule of your own, as sennit.schedules and `show --json` write it.",
    )(command)


def schedule_arguments(schedule: Path | None, **said_by_it: Any) -> dict[str, Any]:
    """Give the arguments of the library's JSON functions: the schedule, or else what it would say.

    Raises:
        click.UsageError: Both are there.
    """
    if schedule is None:
        return said_by_it
    for name, value in said_by_it.items():
        if value:
            what = "COLLECTIVE" if name == "collective" else "--" + name.replace("_", "-")
            raise click.UsageError(f"{what} and --schedule: the schedule says it; leave one out")
    return {"schedule_text": read_text(schedule), "schedule_file": str(schedule)}


def need_collective(collective: str | None, schedule: Path | None) -> None:
    """Refuse a command line that says neither what to do nor how.

    Raises:
        click.UsageError: It is one.
    """
    if collective is None and schedule is None:
        raise click.UsageError("name a COLLECTIVE, or a --schedule FILE.json of your own")
