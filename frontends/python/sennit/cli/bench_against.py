"""`sennit bench --against`: rivals' calls beside ours, by the same ranks on the same buffers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sennit.cli.rivals.rows import count_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sennit.cli.rivals.rows import AloneTimes, Rival

WARM_BYTES = 256 << 10
"""Rows up to this size are also timed with buffers that stay in the cache (of 1 MB and more)."""
SLOW_SECONDS = 5.0
"""A row that would take longer gets fewer samples, and the rival no larger row."""
_UNKNOWN_CACHE_BYTES = 32 << 20


def rotate_bytes(ranks: int) -> int:
    """What one rank's input buffers, or its output buffers, rotate over.

    Either kind is twice the last-level cache, of all ranks together. Were it just the cache, a call
    would find its buffers there or not, as it happens.
    """
    caches = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [size.read_text().strip() for size in caches.glob("index*/size")]
    largest = max((int(size.removesuffix("K")) << 10 for size in sizes), default=0)
    return 2 * (largest or _UNKNOWN_CACHE_BYTES) // ranks


def comparable(order: dict[str, Any], ranks: int, rivals: Sequence[Rival]) -> dict[str, Any]:
    """The work order in the form that all libraries have."""
    one_buffer = any(order["collective"] in rival.one_buffer for rival in rivals)
    return {
        **order,
        "in_place": order["in_place"] or one_buffer,
        "rotate_bytes": rotate_bytes(ranks),
        "warm_bytes": WARM_BYTES,
        "slow_seconds": SLOW_SECONDS,
    }


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one rival's job has given."""

    name: str
    settings: str
    rows: list[dict[str, Any]]
    alone: AloneTimes


def merged(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """One row for each row of the jobs: ours beside the best rival, with all rivals in "rivals".

    The times that stand for ours are those of the job with the best rival, because they were taken
    in turns with it. Where time ran out, jobs have different numbers of rows: those that all have.
    """
    rows = []
    for same in zip(*(one.rows for one in measured), strict=False):
        entries = [_entry(one, row) for one, row in zip(measured, same, strict=True)]
        timed = [entry for entry in entries if not entry["skipped"]]
        best = min(timed, key=lambda entry: entry["p50_us"], default=None)
        row = dict(same[entries.index(best) if best else 0])
        row["wrong"] = None if row["wrong"] is None else sum(other["wrong"] for other in same)
        row["rivals"] = entries
        row["rival"] = {key: best[key] for key in ("name", "p50_us")} if best else None
        row["ratio"] = best["ratio"] if best else None
        warm = [entry["warm"] for entry in timed if entry["warm"]]
        row["warm_ratio"] = min(warm, key=lambda w: w["p50_us"])["ratio"] if warm else None
        rows.append(row)
    return rows


def _entry(measured: Measured, row: dict[str, Any]) -> dict[str, Any]:
    """One rival's part of a row."""
    (raw,) = row["rivals"]
    version = " ".join(raw["version"].replace("Version:", "").split())
    entry = {
        "name": measured.name,
        "version": version,
        "settings": measured.settings,
        "skipped": raw["skipped"],
    }
    if raw["skipped"]:
        return entry
    time, ours = raw["time_us"], row["time_us"]
    alone = measured.alone.get((*kind_of(row), count_of(row)))
    warm = raw["warm_us"] and {
        "p50_us": raw["warm_us"]["p50"],
        "ours_us": row["warm_us"]["p50"],
        "ratio": raw["warm_us"]["p50"] / row["warm_us"]["p50"],
    }
    return {
        **entry,
        "p50_us": time["p50"],
        "min_us": time["min"],
        "p95_us": time["p95"],
        "ours_us": ours["p50"],
        "ratio": time["p50"] / ours["p50"],
        "warm": warm,
        "alone_us": alone,
        "alone_ratio": time["p50"] / alone if alone else None,
        "samples": raw["samples"],
        "calls_per_sample": raw["calls_per_sample"],
        "wrong": raw["wrong"],
    }
