"""What the Python suites share: where their own modules lie, and how they run commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
# Ranks that are processes import their functions by name; they inherit this path.
sys.path.insert(0, str(HERE))

_LAUNCHER_PREFIXES = ("SENNIT_", "RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the variables of whatever runs the tests away from the ranks that they start."""
    for name in list(os.environ):
        if name.startswith(_LAUNCHER_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))


@pytest.fixture
def sennit_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `sennit` with arguments, as a process of its own."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "sennit", *arguments],
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run
