"""What a rival is to a benchmark, and how its rows are distinguished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sennit.cli import names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sennit.cli.ranks import Start

AloneTimes = dict[tuple[str, str, str, int], float]
"""us by collective, type, operator and count."""


class Rival(Protocol):
    """A library whose calls the rank program can make next to ours.

    Attributes:
        name: In tables and documents.
        library: The shared object that bench/rivals/rival.h asks for.
        one_buffer: Collectives that it has in place only.
    """

    name: str
    library: Path
    one_buffer: frozenset[str]

    @property
    def settings(self) -> str:
        """Its settings beyond its defaults."""

    def starts(self) -> list[Start]:
        """How its ranks are started."""

    def time_alone(
        self, orders: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> AloneTimes:
        """What the calls of rows take in a program without Sennit, where there is such a one."""


def kind_of(row_or_order: dict[str, Any]) -> tuple[str, str, str]:
    """What distinguishes rows of one size."""
    return row_or_order["collective"], row_or_order["dtype"], row_or_order["op"]


def count_of(row: dict[str, Any]) -> int:
    """The count of sennit.h that a row's bytes are."""
    parts = row["ranks"] if row["collective"] in names.PER_RANK else 1
    return int(row["bytes"]) // names.element_bytes(row["dtype"]) // parts
