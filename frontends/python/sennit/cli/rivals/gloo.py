"""Gloo, as PyTorch has it: the rival for CPU ranks in Python."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sennit
from sennit import compiled_files
from sennit.cli.failure import missing
from sennit.cli.ranks import Start, own_starts
from sennit.cli.rivals.rows import AloneTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCES = Path(sennit.__file__).parent / "share" / "sennit" / "rivals"
TORCH = "torch==2.13.0"
"""What `pip install` gets where there is no PyTorch."""


class GlooRival:
    """Gloo of the PyTorch that is here, whose groups begin in Python."""

    name = "gloo"
    one_buffer = frozenset({"all_reduce", "reduce", "broadcast"})
    settings = ""

    def __init__(self, ranks: int) -> None:
        """Compile the adapter, once for each PyTorch: that takes most of a minute.

        Raises:
            Failure: There is no PyTorch, or no compiler.
        """
        self._ranks = ranks
        self.library = _compiled(_torch_folder())

    def starts(self) -> list[Start]:
        """Processes of Python, which run the rank program inside."""
        launcher = (sys.executable, str(_SOURCES / "gloo_rank.py"))
        return [Start(start.environment, launcher) for start in own_starts(self._ranks)]

    def time_alone(
        self,
        orders: Sequence[dict[str, Any]],  # noqa: ARG002
        rows: Sequence[dict[str, Any]],  # noqa: ARG002
    ) -> AloneTimes:
        """Nothing: there is no program for it."""
        return {}


def _torch_folder() -> Path:
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        raise missing("--against gloo needs PyTorch, which is not here", f"pip install {TORCH}")
    return Path(found.origin).parent


def _compiled(torch: Path) -> Path:
    source = _SOURCES / "gloo.cpp"
    version = (torch / "version.py").read_bytes()
    key = hashlib.sha256(source.read_bytes() + version + bytes(torch)).hexdigest()[:16]
    try:
        library = compiled_files.folder() / f"gloo-{key}.so"
        if compiled_files.is_here(library):
            return library
        library.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise missing(
            f"--against gloo: its adapter cannot be kept: {error}",
            "set XDG_CACHE_HOME to a folder that can be written",
        ) from error
    # Under its own name at first: two benchmarks may come here at once.
    unfinished = library.with_suffix(f".{os.getpid()}")
    headers = torch / "include"
    command: list[str | Path] = ["g++", "-std=c++20", "-O2", "-w", "-shared", "-fPIC", source]
    command += ["-I", headers, "-I", headers / "torch/csrc/api/include", "-o", unfinished]
    command += [f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{torch / 'lib'}"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, errors="backslashreplace", check=False
        )
    except OSError as error:
        raise missing(f"--against gloo: g++ cannot be run: {error}", "apt install g++") from error
    if answer.returncode != 0:
        last = "\n".join(answer.stderr.splitlines()[-20:])
        raise missing(
            f"--against gloo: its adapter does not compile with this PyTorch:\n{last}",
            f"pip install {TORCH}",
        )
    compiled_files.finish(unfinished, library)
    return library
