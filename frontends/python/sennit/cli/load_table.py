"""The table of a benchmark of GPU ranks together with a load, beside NCCL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sennit.cli.bench_table import BenchTable, data_cell

if TYPE_CHECKING:
    from rich.console import Console

_LOADS = {"matmul": "products of matrices", "copy": "copies of the GPU's memory"}


class LoadTable(BenchTable):
    """A line a row: each alone, both at once, and both over the longer of the two."""

    columns = (
        ("bytes", "B", 12),
        ("load", "ms", 8),
        ("calls", "ms", 8),
        ("both", "ms", 8),
        ("/longer", "", 8),
        ("SMs", "", 5),
        ("nccl", "ms", 8),
        ("both", "ms", 8),
        ("/longer", "", 8),
        ("ratio", "", 6),
        ("#wrong", "", 7),
    )

    def __init__(self, console: Console, nccl_version: str | None) -> None:
        """Print to this console, beside an NCCL of this version."""
        super().__init__(console)
        self._nccl_version = nccl_version
        self._has_begun = False

    def _describe(self, order: dict[str, Any], ranks: int) -> None:
        sms = f" for {order['load_sms']} SMs" if order["load_sms"] else ""
        checked = "checked against" if order["check"] else "not checked, beside"
        self._console.print(
            f"{order['collective']}, {ranks} GPU ranks, {order['mode']}, together with "
            f"{_LOADS[order['beside']]}{sms}, {order['iterations']} samples, {checked} "
            f"NCCL {self._nccl_version}"
        )

    def add_of(self, order: dict[str, Any], row: dict[str, Any]) -> None:
        """Print one row, before the first the header."""
        if not self._has_begun:
            self._has_begun = True
            self.begin(order, row["ranks"])
        self.add_cells(row)

    def cells(self, row: dict[str, Any]) -> list[str]:
        """The columns of one row."""
        times = ("comp_ms", "comm_ms", "both_ms", "both_over_max")
        rivals = ("rival_comm_ms", "rival_both_ms", "rival_both_over_max")
        return [
            str(row["bytes"]),
            *(f"{row[name]:.2f}" for name in times),
            str(row["sm_count"]),
            *(f"{row[name]:.2f}" for name in rivals),
            f"{row['ratio']:.2f}",
            data_cell(row),
        ]
