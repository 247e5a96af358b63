"""The table of a benchmark, a row as soon as it is measured, in the manner of nccl-tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from sennit.cli.names import REDUCING, ROOTED, element_bytes

if TYPE_CHECKING:
    from rich.console import Console


class BenchTable:
    """Prints a header before the first row, and a line for each row."""

    columns: tuple[tuple[str, str, int], ...] = (
        ("bytes", "B", 12),
        ("count", "elements", 12),
        ("type", "", 8),
        ("op", "", 5),
        ("root", "", 6),
        ("min", "us", 10),
        ("p50", "us", 10),
        ("p95", "us", 10),
        ("algbw", "GB/s", 8),
        ("busbw", "GB/s", 8),
        ("#wrong", "", 7),
    )
    # Of rows with a codec, in place of #wrong: relative to the rms of what was expected.
    error_column = ("error", "rms", 9)
    """Name, unit and width."""

    def __init__(self, console: Console) -> None:
        """Print to this console."""
        self._console = console
        self._way: tuple[str, ...] | None = None

    def begin(self, order: dict[str, Any], ranks: int) -> None:
        """Print the header of the rows of a work order."""
        if order.get("codec"):
            self.columns = (*self.columns[:-1], self.error_column)
        self._describe(order, ranks)
        self._line([name for name, _, _ in self.columns], style="bold")
        self._line([unit for _, unit, _ in self.columns], style="dim")

    def _describe(self, order: dict[str, Any], ranks: int) -> None:
        checked = "checked" if order["check"] else "not checked"
        place = "in place" if order["in_place"] else "out of place"
        coded = f"codec {order['codec']}, random data, " if order.get("codec") else ""
        self._console.print(
            f"{order['collective']}, {ranks} rank{'s' if ranks > 1 else ''} on this machine, "
            f"{place}, {coded}"
            f"{order['iterations']} samples after {order['warmup']}, {checked}"
        )

    def add(self, row: dict[str, Any]) -> None:
        """Print one row of the JSON document, and before it the way of its calls if that is new."""
        way = (row["algorithm"], row["protocol"], ", ".join(row["paths"]))
        if way != self._way:
            self._way = way
            self._console.print(
                Text(f"# {way[0]} by {way[1]} over {way[2] or 'no path'}", style="dim")
            )
        self.add_cells(row)

    def add_cells(self, row: dict[str, Any]) -> None:
        """Print one row alone."""
        self._line(self.cells(row), style="red" if row["wrong"] else "")

    def _line(self, cells: list[str], style: str) -> None:
        padded = (
            cell.rjust(width) for cell, (_, _, width) in zip(cells, self.columns, strict=True)
        )
        self._console.print(Text(" ".join(padded), style=style))

    def cells(self, row: dict[str, Any]) -> list[str]:
        """The columns of one row."""
        time = row["time_us"]
        collective = row["collective"]
        return [
            str(row["bytes"]),
            str(row["bytes"] // element_bytes(row["dtype"])),
            row["dtype"],
            row["op"] if collective in REDUCING else "-",
            str(row["root"]) if collective in ROOTED else "-",
            *(f"{time[quantile]:.2f}" for quantile in ("min", "p50", "p95")),
            f"{row['algbw_GBps']:.3f}",
            f"{row['busbw_GBps']:.3f}",
            data_cell(row),
        ]


def data_cell(row: dict[str, Any]) -> str:
    """The last column: wrong elements of a row, or its error by a codec."""
    if "codec" in row:
        return "N/A" if row["error"] is None else f"{row['error']['rms']:.2e}"
    return "N/A" if row["wrong"] is None else str(row["wrong"])
