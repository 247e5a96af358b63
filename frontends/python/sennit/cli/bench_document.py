"""The JSON document of a benchmark: the rows, and what they were measured on."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path
from typing import Any

import sennit
from sennit import _core
from sennit.cli.tools import ask

SCHEMA = 1
_MACHINE_FIELDS = {
    "name": "name",
    "fingerprint": "fingerprint",
    "cpu": "cpu_model",
    "cores": "cores",
    "gpus": "gpus",
    "driver": "driver",
}
"""Key here, and key in the library's description; a machine without GPUs has no driver."""


def document(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The document of schema 1."""
    machine = ask(_core.tool_machine)
    return {
        "schema": SCHEMA,
        "machine": {key: machine.get(field) for key, field in _MACHINE_FIELDS.items()},
        "version": sennit.__version__,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "rows": rows,
    }


def commit() -> str | None:
    """Commit of the source tree that this package lies in; None outside one, or without git."""
    here = Path(__file__).resolve()
    root = next((folder for folder in here.parents if _is_source_tree(folder)), None)
    if root is None:
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def _is_source_tree(folder: Path) -> bool:
    return (folder / ".git").exists() and (folder / "include/sennit/sennit.h").is_file()
