"""`--machine NAME|FILE`: a machine of the catalogue, or a file in its text form."""

from __future__ import annotations

from pathlib import Path

from sennit.cli.files import read_text


def machine_arguments(machine: str) -> dict[str, str]:
    """Give the arguments of the library's JSON functions that name the machine."""
    file = Path(machine)
    if not file.suffix and "/" not in machine:
        return {"machine": machine}
    return {"machine_text": read_text(file), "machine_file": machine}
