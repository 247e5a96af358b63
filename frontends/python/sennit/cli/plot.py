"""The picture of a benchmark: over size, time, and bus bandwidth or the ratio to a rival."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from sennit.cli.failure import missing
from sennit.cli.sizes import human

if TYPE_CHECKING:
    from pathlib import Path

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; marker and
# line differ too, for prints without colour.
STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
)


def require_matplotlib() -> None:
    """Fail before anything is measured when there is nothing to draw with."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing("--plot needs matplotlib, which is not here", "pip install 'sennit[plot]'")


def save_plot(file: Path, rows: list[dict[str, Any]]) -> None:
    """Draw the rows, one line for each kind of call; the ending of the name says the format."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    has_rival = any(row["ratio"] is not None for row in rows)
    figure, (times, second) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for index, (label, series) in enumerate(_series(rows).items()):
        colour, marker, line = STYLES[index % len(STYLES)]
        style = {"color": colour, "marker": marker, "linestyle": line, "markersize": 4}
        sizes = [row["bytes"] for row in series]
        p50 = [row["time_us"]["p50"] for row in series]
        low = [row["time_us"]["min"] for row in series]
        high = [row["time_us"]["p95"] for row in series]
        times.plot(sizes, p50, label=label, **style)
        times.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
        if has_rival:
            rated = [row for row in series if row["ratio"] is not None]
            ratios = [row["ratio"] for row in rated]
            second.plot([row["bytes"] for row in rated], ratios, label=label, **style)
        else:
            second.plot(sizes, [row["busbw_GBps"] for row in series], label=label, **style)
    _name_axes(times, "time (us): p50, from min to p95")
    _name_axes(second, "time of the best rival / ours" if has_rival else "busbw (GB/s)")
    if has_rival:
        second.set_yscale("linear")
        second.set_ylim(bottom=0)
        second.axhline(1, color="black", linewidth=0.8)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _name_axes(axes: Any, what: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda size, _: human(int(size)))
    axes.set_xlabel("size (bytes)")
    axes.set_ylabel(what)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()


def _series(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["bytes"] > 0:
            label = f"{row['collective']} {row['dtype']}, {row['ranks']} ranks"
            series.setdefault(label, []).append(row)
    return series
