"""What the processes of a program counted: the files that src/capi/call_counts.cpp writes."""

from __future__ import annotations

import dataclasses
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = struct.Struct("<8sII48x")  # magic, pid, rows that are used
_ROW = struct.Struct("<48s6Q160s")
_MAGIC = b"SNTCOUNT"


@dataclasses.dataclass
class Share:
    """Calls that went one way: all of them together, and the longest time of one process."""

    calls: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, calls: int, size_bytes: int, nanoseconds: int) -> None:
        """Add what another process counted."""
        self.calls += calls
        self.bytes += size_bytes
        self.seconds = max(self.seconds, nanoseconds * 1e-9)


@dataclasses.dataclass
class Row:
    """One function of NCCL or MPI, by its name there."""

    call: str
    taken: Share = dataclasses.field(default_factory=Share)
    passed_on: Share = dataclasses.field(default_factory=Share)
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` has it."""
        return dataclasses.asdict(self)


@dataclasses.dataclass
class Counts:
    """All processes together."""

    processes: int
    rows: list[Row]


def read_counts(folder: Path) -> Counts:
    """Add up the files of a folder; those that are none are left out."""
    rows: dict[str, Row] = {}
    processes = 0
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        if len(content) < _HEADER.size:
            continue
        magic, _, used = _HEADER.unpack_from(content)
        if magic != _MAGIC or len(content) < _HEADER.size + used * _ROW.size:
            continue
        processes += 1
        for index in range(used):
            name, *numbers, why = _ROW.unpack_from(content, _HEADER.size + index * _ROW.size)
            row = rows.setdefault(_text(name), Row(_text(name)))
            row.taken.add(*numbers[:3])
            row.passed_on.add(*numbers[3:])
            row.why = row.why or _text(why)
    return Counts(processes, sorted(rows.values(), key=lambda row: row.call))


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
