"""`--machine NAME|FILE`: a machine of the catalogue, or a file in its text form."""

from __future__ import annotations

from pathlib import Path

import click


def machine_arguments(machine: str) -> dict[str, str]:
    """Give the arguments of the library's JSON functions that name the machine."""
    file = Path(machine)
    if not file.suffix and "/" not in machine:
        return {"machine": machine}
    try:
        return {"machine_text": file.read_text(encoding="utf-8"), "machine_file": machine}
    except OSError as error:
        raise click.BadParameter(f"cannot read {machine}: {error.strerror}") from error
