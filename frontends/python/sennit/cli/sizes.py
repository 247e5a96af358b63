"""Message sizes: their text form, and the sweep of a benchmark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([KMG]?)(?:i?B)?", re.IGNORECASE)


def parse_size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Give the bytes of an option's text: `8`, `64K`, `1M`, `2G`, by powers of 1024."""
    if value is None:
        return None
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is no size; write 8, 64K, 1M or 2G", ctx, param)
    return int(match[1]) * _UNITS[match[2].upper()]


def human(size_bytes: int) -> str:
    """Bytes for people: exact where the number is round, else with its plain digits."""
    for unit in ("G", "M", "K"):
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return str(size_bytes)


def microseconds(seconds: float) -> str:
    """A time for people: in us, and from 10 ms on in ms."""
    return f"{seconds * 1e6:.2f} us" if seconds < 0.01 else f"{seconds * 1e3:.2f} ms"


def sweep(begin: int, end: int, factor: int, quantum: int) -> list[int]:
    """Sizes from begin to end, each rounded up to a whole number of quanta, none twice."""
    return list(dict.fromkeys(-(-size // quantum) * quantum for size in _steps(begin, end, factor)))


def _steps(begin: int, end: int, factor: int) -> Iterator[int]:
    size = begin
    while size < end:
        yield size
        # A sweep from 0 has to get away from it.
        size = size * factor if size else 1
    yield end
