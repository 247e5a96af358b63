"""`sennit bench --against`: rivals' calls beside ours, by the same ranks on the same buffers."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sennit.cli import mpi, names
from sennit.cli.failure import EXIT_RANK_FAILED, Failure
from sennit.cli.ranks import Start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WARM_BYTES = 256 << 10
"""Rows up to this size are also timed with buffers that stay in the cache (of 1 MB and more)."""
SLOW_SECONDS = 5.0
"""A row that would take longer gets fewer samples, and the rival no larger row."""
_UNKNOWN_CACHE_BYTES = 32 << 20
_COLLECTIVES_ALONE = frozenset(names.COLLECTIVES) - {"barrier", "send_recv"}

AloneTimes = dict[tuple[str, str, str, int], float]
"""us by collective, type, operator and count."""


def rotate_bytes(ranks: int) -> int:
    """What one rank's input buffers, or its output buffers, rotate over.

    Either kind is twice the last-level cache, of all ranks together. Were it just the cache, a call
    would find its buffers there or not, as it happens.
    """
    caches = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = [size.read_text().strip() for size in caches.glob("index*/size")]
    largest = max((int(size.removesuffix("K")) << 10 for size in sizes), default=0)
    return 2 * (largest or _UNKNOWN_CACHE_BYTES) // ranks


def comparable(order: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The work order in the form that both libraries have."""
    return {
        **order,
        # MPI's broadcast has one buffer.
        "in_place": order["in_place"] or order["collective"] == "broadcast",
        "rotate_bytes": rotate_bytes(ranks),
        "warm_bytes": WARM_BYTES,
        "slow_seconds": SLOW_SECONDS,
    }


class MpiRival:
    """An MPI, its adapter compiled: one job in which the same ranks call it and Sennit."""

    def __init__(self, installed: mpi.Mpi, ranks: int, folder: Path) -> None:
        """Compile what it needs into the folder.

        Raises:
            Failure: It cannot be compiled.
        """
        self.name = installed.name
        self._installed = installed
        self._ranks = ranks
        sources = ["mpi.c"]
        self.library = installed.compile(
            folder / f"{self.name}.so", sources, "-shared", "-fPIC", "-fvisibility=default"
        )
        self._alone = installed.compile(folder / f"{self.name}-alone", ["mpi_alone.c", *sources])

    @property
    def settings(self) -> str:
        """What its launcher is told."""
        return " ".join(self._installed.settings(self._ranks))

    def starts(self) -> list[Start]:
        """Its launcher, which starts all ranks."""
        own = {"SENNIT_RANK", "SENNIT_SIZE", "SENNIT_KEY"}
        environment = {name: value for name, value in os.environ.items() if name not in own}
        return [Start(environment, self._installed.launcher(self._ranks))]

    def time_alone(
        self, orders: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> AloneTimes:
        """What its calls take in a C program without Sennit, where rows have that form."""
        times: AloneTimes = {}
        for order in filter(_is_plain, orders):
            kind = _kind_of(order)
            counts = [
                count_of(row)
                for row in rows
                if _kind_of(row) == kind and not row["rivals"][0]["skipped"]
            ]
            if counts:
                for count, us in self._run_alone(order, dict.fromkeys(counts)):
                    times[(*kind, count)] = us
        return times

    def _run_alone(
        self, order: dict[str, Any], counts: Iterable[int]
    ) -> Iterator[tuple[int, float]]:
        words = (
            order["dtype"],
            names.element_bytes(order["dtype"]),
            order["op"],
            order["iterations"],
            order["rotate_bytes"],
            int(order["pin"]),
            order["collective"],
            *counts,
        )
        (start,) = self.starts()
        answer = subprocess.run(
            [*start.launcher, str(self._alone), *map(str, words)],
            env=dict(start.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise Failure(
                f"sennit: {self.name} by itself ended with code {answer.returncode}:\n"
                f"{answer.stderr.rstrip()}",
                EXIT_RANK_FAILED,
            )
        for line in answer.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                yield row["count"], row["p50_us"]


def _is_plain(order: dict[str, Any]) -> bool:
    """Whether the program that has the rival alone makes such calls."""
    collective = order["collective"]
    rotates = collective not in names.ROOTED or order["root"] == "rotate"
    in_place = order["in_place"] and collective != "broadcast"
    return collective in _COLLECTIVES_ALONE and rotates and not in_place


def _kind_of(row_or_order: dict[str, Any]) -> tuple[str, str, str]:
    return row_or_order["collective"], row_or_order["dtype"], row_or_order["op"]


def count_of(row: dict[str, Any]) -> int:
    """The count of sennit.h that a row's bytes are."""
    parts = row["ranks"] if row["collective"] in names.PER_RANK else 1
    return int(row["bytes"]) // names.element_bytes(row["dtype"]) // parts


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
    in turns with it.
    """
    rows = []
    for same in zip(*(one.rows for one in measured), strict=True):
        entries = [_entry(one, row) for one, row in zip(measured, same, strict=True)]
        timed = [entry for entry in entries if not entry["skipped"]]
        best = min(timed, key=lambda entry: entry["p50_us"], default=None)
        row = dict(same[entries.index(best) if best else 0])
        row["wrong"] = sum(other["wrong"] for other in same)
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
    alone = measured.alone.get((*_kind_of(row), count_of(row)))
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
