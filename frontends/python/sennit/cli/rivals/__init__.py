"""The libraries that `sennit bench --against` compares with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sennit.cli.rivals import mpi
from sennit.cli.rivals.gloo import GlooRival

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sennit.cli.rivals.rows import Rival

MEMBERS = {"mpi": mpi.NAMES, **{name: (name,) for name in mpi.NAMES}, "gloo": ("gloo",)}
"""What --against takes, and the libraries that it stands for."""


def prepare(wanted: Iterable[str], ranks: int, folder: Path) -> list[Rival]:
    """Find the rivals of these names, and compile what they need into the folder.

    Raises:
        Failure: One is not here.
    """
    libraries = dict.fromkeys(member for name in wanted for member in MEMBERS[name])
    mpis = [name for name in libraries if name in mpi.NAMES]
    found: list[Rival] = []
    if mpis:
        found += [mpi.MpiRival(one, ranks, folder) for one in mpi.find(mpis)]
    if "gloo" in libraries:
        found.append(GlooRival(ranks))
    return found
