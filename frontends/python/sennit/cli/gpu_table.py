"""The table of a benchmark of GPU ranks, beside NCCL in one mode or both, or beside copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from sennit.cli.bench_table import BenchTable, data_cell
from sennit.cli.gpu_rows import MODES, STAGED, floor_text
from sennit.cli.names import REDUCING

if TYPE_CHECKING:
    from rich.console import Console


class GpuTable(BenchTable):
    """A line a row; behind it, where they were timed, further ways of Sennit."""

    columns = (
        ("bytes", "B", 12),
        ("type", "", 8),
        ("op", "", 5),
        ("min", "us", 9),
        ("p50", "us", 9),
        ("p95", "us", 9),
        ("floor", "us", 9),
        ("SMs", "", 5),
        ("algbw", "GB/s", 8),
        ("busbw", "GB/s", 8),
        ("nccl", "p50 us", 9),
        ("windows", "p50 us", 9),
        ("staged", "p50 us", 9),
        ("ratio", "", 6),
        ("#wrong", "", 7),
    )

    def __init__(self, console: Console, nccl_version: str | None) -> None:
        """Print to this console, beside an NCCL of this version where that is what was timed."""
        super().__init__(console)
        self._nccl_version = nccl_version
        self._rival = ""

    def _describe(self, order: dict[str, Any], ranks: int) -> None:
        checked = "checked against" if order["check"] else "not checked, beside"
        coded = f"codec {order['codec']}, " if order.get("codec") else ""
        self._console.print(
            f"{order['collective']}, {ranks} GPU ranks, {order['mode']}, {coded}"
            f"{order['iterations']} samples after {order['warmup']}, {checked} {self._rival}"
        )

    def add_of(self, order: dict[str, Any], row: dict[str, Any]) -> None:
        """Print one row, before the first the header, and the p50 us of further ways."""
        if not self._rival:  # it is known with the first row alone
            is_staged = row["rival"]["name"] == STAGED
            self._rival = (
                "copies through host memory" if is_staged else f"NCCL {self._nccl_version}"
            )
            self.begin(order, row["ranks"])
        self.add_cells(row)
        if row["engines"]:
            ways = (
                f"{name.removeprefix('sennit ')} {time['p50']:.1f}"
                for name, time in row["engines"].items()
            )
            self._console.print(Text(" " * 13 + "p50 us by " + ", ".join(ways), style="dim"))

    def cells(self, row: dict[str, Any]) -> list[str]:
        """The columns of one row."""
        time = row["time_us"]
        rivals = {rival["name"]: f"{rival['p50_us']:.2f}" for rival in row["rivals"]}
        return [
            str(row["bytes"]),
            row["dtype"],
            row["op"] if row["collective"] in REDUCING else "-",
            *(f"{time[quantile]:.2f}" for quantile in ("min", "p50", "p95")),
            floor_text(row, digits=2),
            str(row.get("sm_count", "-")),
            f"{row['algbw_GBps']:.3f}",
            f"{row['busbw_GBps']:.3f}",
            *(rivals.get(name, "-") for name in (*MODES, STAGED)),
            f"{row['ratio']:.2f}",
            data_cell(row),
        ]
