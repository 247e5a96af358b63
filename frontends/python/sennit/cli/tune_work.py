"""What `sennit tune` times: the ways of a collective, and the rows that come of them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sennit import _core
from sennit.cli.failure import Failure
from sennit.cli.names import PER_RANK
from sennit.cli.ranks import Ranks, own_starts
from sennit.cli.tools import ask

REPETITIONS = (3, 5)
"""Through all ways of a size in turn, to make a table and to check one: what disturbs the machine
for a moment then disturbs no way alone."""

_SIZES = [256, 4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20]
_TILES = {"slots": (0, 16 << 10), "direct": (0, 256 << 10, 4 << 20)}
"""0 is the default tile: a slot, or 4 MB."""

_CHAIN_SIZES = [256 << 10, 1 << 20, 4 << 20, 16 << 20]  # some of the above
_CHAIN_TILES = {
    "slots": [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10],
    "direct": [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20],
}
"""Chunks of broadcast's pipelined chain, of which equation (5) and its optimum speak."""

_SAMPLES = 3
_PRUNE = 4.0
"""So many times slower than the best at one size, and a way is left out at the next."""
_MOST_SECONDS = 0.1
"""Of one row."""


def measure(
    collective: str, ranks: int, repetitions: int
) -> tuple[list[dict[str, Any]], Failure | None]:
    """The times of all ways at all sizes, as rows of the library's tuning functions.

    Where a rank fails, such as by a way that misses the deadline on a busy machine: the times until
    then, and the failure.
    """
    order = {"cycles": repetitions, "prune": _PRUNE}
    rows, failure = _measure(collective, ranks, _SIZES, _ways(collective), order)
    if collective == "broadcast" and failure is None:
        order["prune"] = 0.0
        chains, failure = _measure(collective, ranks, _CHAIN_SIZES, _chain_ways(), order)
        known = {_key(row) for row in rows}
        rows += [row for row in chains if _key(row) not in known]
    return rows, failure


def _ways(collective: str) -> list[dict[str, Any]]:
    algorithms = ask(_core.tool_algorithms, collective=collective)["algorithms"]
    return [
        {"algorithm": row["name"], "protocol": protocol, "tile_bytes": tile}
        for row in algorithms
        for protocol, tiles in _TILES.items()
        for tile in tiles
    ]


def _chain_ways() -> list[dict[str, Any]]:
    return [
        {"algorithm": "chain", "protocol": protocol, "tile_bytes": tile}
        for protocol, tiles in _CHAIN_TILES.items()
        for tile in tiles
    ]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("bytes", "algorithm", "protocol", "tile_bytes"))


def _measure(
    collective: str,
    ranks: int,
    sizes: list[int],
    ways: list[dict[str, Any]],
    how: dict[str, Any],
) -> tuple[list[dict[str, Any]], Failure | None]:
    # A whole element for every rank.
    quantum = 4 * ranks if collective in PER_RANK else 4
    order = {
        "collective": collective,
        "sizes": [-(-size // quantum) * quantum for size in sizes],
        "iterations": _SAMPLES,
        "warmup": 1,
        "check": False,
        "max_seconds": _MOST_SECONDS,
        "pin": True,
        "tries": ways,
        **how,
    }
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    failed: Failure | None = None
    with Ranks({"orders": [order]}, own_starts(ranks)) as running:
        try:
            for row in running.rows():
                times[row["bytes"], row["try"]].append(row["time_us"]["p50"])
        except Failure as failure:
            failed = failure
    rows = [
        {
            "collective": collective,
            "ranks": ranks,
            "bytes": size,
            **ways[number],
            "times_us": repeated,
        }
        for (size, number), repeated in times.items()
        # A tile that is no smaller than all there is makes the same plan as the default one.
        if _is_distinct(ways[number], size, collective, ranks)
    ]
    return rows, failed


def _is_distinct(way: dict[str, Any], size: int, collective: str, ranks: int) -> bool:
    block = size // ranks if collective in PER_RANK else size
    tile: int = way["tile_bytes"]
    return tile == 0 or tile < block or way["algorithm"] == "chain"
