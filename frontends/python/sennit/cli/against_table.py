"""Tables of a benchmark against rivals."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sennit.cli.bench_table import BenchTable
from sennit.cli.names import REDUCING
from sennit.cli.sizes import human

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

ALONE_TOLERANCE = 0.15
"""How far a rival's time may be from that of its own program before it is marked."""
_NONE = "-"


class AgainstTable(BenchTable):
    """One rival's job: its samples were taken in turns with ours."""

    columns = (
        ("bytes", "B", 12),
        ("type", "", 8),
        ("op", "", 5),
        ("ours", "p50 us", 10),
        ("rival", "p50 us", 10),
        ("ratio", "", 7),
        ("ours", "warm us", 10),
        ("rival", "warm us", 10),
        ("ratio", "warm", 7),
        ("#wrong", "", 7),
    )

    def cells(self, row: dict[str, Any]) -> list[str]:
        """The columns of one row."""
        (rival,) = row["rivals"]
        head = [
            str(row["bytes"]),
            row["dtype"],
            row["op"] if row["collective"] in REDUCING else _NONE,
        ]
        wrong = _NONE if row["wrong"] is None else str(row["wrong"] + (rival.get("wrong") or 0))
        if rival["skipped"]:
            return [*head, f"{row['time_us']['p50']:.2f}", "skipped", *[_NONE] * 4, wrong]
        return [
            *head,
            *_pair(row["time_us"], rival["time_us"]),
            *_pair(row["warm_us"], rival["warm_us"]),
            wrong,
        ]


def _pair(ours: dict[str, float] | None, rival: dict[str, float] | None) -> tuple[str, str, str]:
    if ours is None or rival is None:
        return _NONE, _NONE, _NONE
    return (
        f"{ours['p50']:.2f}",
        f"{rival['p50']:.2f}",
        f"{rival['p50'] / ours['p50']:.2f}",
    )


def summarize(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """Print for each collective how we stand against the best rival of each size.

    A rival's time is followed by that of its own program without Sennit, with a mark where the two
    differ too much.
    """
    for (collective, dtype), group in itertools.groupby(
        rows, key=lambda row: (row["collective"], row["dtype"])
    ):
        same = list(group)
        console.print(
            f"\n{collective} {dtype}, {same[0]['ranks']} ranks, p50 us; alone in brackets"
        )
        names = [rival["name"] for rival in same[0]["rivals"]]
        console.print(
            Text("bytes".rjust(8) + "".join(name.rjust(24) for name in names), style="bold"),
            Text("ours".rjust(10) + "best".rjust(10) + "ratio".rjust(8) + "warm".rjust(8), "bold"),
        )
        for row in same:
            console.print(_summary_line(row))
        _print_means(console, same)


def _summary_line(row: dict[str, Any]) -> str:
    rivals = "".join(_rival_cell(rival).rjust(24) for rival in row["rivals"])
    best = row["rival"]["name"] if row["rival"] else _NONE
    return (
        f"{human(row['bytes']):>8}{rivals} {row['time_us']['p50']:>10.2f}{best:>10}"
        f"{_ratio(row['ratio']):>8}{_ratio(row['warm_ratio']):>8}"
    )


def _rival_cell(rival: dict[str, Any]) -> str:
    if rival["skipped"]:
        return "too slow"
    alone = rival["alone_us"]
    if alone is None:
        return f"{rival['p50_us']:.2f}"
    mark = "*" if is_off(rival) else " "
    return f"{rival['p50_us']:.2f} ({alone:.2f}){mark}"


def is_off(rival: dict[str, Any]) -> bool:
    """Whether a rival's time is far from that of its own program."""
    ratio = rival.get("alone_ratio")
    return ratio is not None and abs(ratio - 1) > ALONE_TOLERANCE


def _ratio(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"


def _print_means(console: Console, rows: Iterable[dict[str, Any]]) -> None:
    rows = list(rows)
    rated = [row for row in rows if row["ratio"] is not None]
    if rated:
        least = min(rated, key=lambda row: row["ratio"])
        console.print(
            f"geometric mean {statistics.geometric_mean(row['ratio'] for row in rated):.2f}, "
            f"least {least['ratio']:.2f} at {human(least['bytes'])}"
        )
    off = sum(is_off(rival) for row in rows for rival in row["rivals"])
    if off:
        console.print(
            f"* {off} times of a rival are more than {ALONE_TOLERANCE:.0%} from those of its own "
            "program"
        )
