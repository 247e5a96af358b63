"""The picture of a benchmark: over size, time, and bus bandwidth or the ratio to a rival."""

from __future__ import annotations

import datetime
import importlib.util
from typing import TYPE_CHECKING, Any

import click

import sennit
from sennit import _core
from sennit.cli.failure import missing
from sennit.cli.files import check_writable
from sennit.cli.sizes import human
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from pathlib import Path

# Okabe and Ito's colours, which people with any kind of colour vision can distinguish; marker and
# line differ too, for prints without colour.
STYLES = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"),
    ("#56B4E9", "P", "--"),
)


def parse_plot(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Give the file of `--plot`, before anything is measured.

    Raises:
        Failure: There is nothing to draw with.
        click.BadParameter: It cannot be written, or its ending names no kind of picture.
    """
    if value is None:
        return None
    if importlib.util.find_spec("matplotlib") is None:
        raise missing("--plot needs matplotlib, which is not here", "pip install 'sennit[plot]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kinds = FigureCanvasAgg.get_supported_filetypes()
    if value.suffix[1:].lower() not in kinds:
        raise click.BadParameter(
            f"{value} does not end in one of {', '.join(f'.{kind}' for kind in sorted(kinds))}",
            ctx,
            param,
        )
    return check_writable(value)


def save_plot(file: Path, rows: list[dict[str, Any]]) -> None:
    """Draw the rows, one line for each kind of call; the ending of the name says the format."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    has_rival = any(row["ratio"] is not None for row in rows)
    figure, (times, second) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for index, (label, series) in enumerate(_series(rows).items()):
        style = _style(index)
        sizes = [row["bytes"] for row in series]
        p50 = [row["time_us"]["p50"] for row in series]
        low = [row["time_us"]["min"] for row in series]
        high = [row["time_us"]["p95"] for row in series]
        times.plot(sizes, p50, label=label, **style)
        times.fill_between(sizes, low, high, color=style["color"], alpha=0.15, linewidth=0)
        if has_rival:
            rated = [row for row in series if row["ratio"] is not None]
            ratios = [row["ratio"] for row in rated]
            second.plot([row["bytes"] for row in rated], ratios, label=label, **style)
        else:
            second.plot(sizes, [row["busbw_GBps"] for row in series], label=label, **style)
    rivals = sorted({rival["name"] for row in rows for rival in row["rivals"]})
    best = "the best of " if len(rivals) > 1 else ""
    _name_axes(times, "time (us): p50, from min to p95")
    _name_axes(second, f"time of {best}{', '.join(rivals)} / ours" if has_rival else "busbw (GB/s)")
    # Beside the panels, where it hides nothing, however many lines there are.
    figure.legend(*times.get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    if has_rival:
        second.set_yscale("linear")
        second.set_ylim(bottom=0)
        second.axhline(1, color="black", linewidth=0.8)
    figure.suptitle(_title(rows), fontsize="medium")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _title(rows: list[dict[str, Any]]) -> str:
    """Where and when it was measured, and against whom."""
    machine = ask(_core.tool_machine)
    rivals = sorted({rival["name"] for row in rows for rival in row["rivals"]})
    against = f", against {', '.join(rivals)}" if rivals else ""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    place = f"{machine.get('cpu_model') or machine['name']}, {machine['cores']} cores"
    return f"sennit {sennit.__version__} on {place}, {today}{against}"


def _name_axes(axes: Any, what: str) -> None:
    # Of one rank the bandwidth is zero, of barriers there are no sizes; neither has a logarithm.
    if any((line.get_xdata() > 0).any() for line in axes.get_lines()):
        axes.set_xscale("log", base=2)
    if any((line.get_ydata() > 0).any() for line in axes.get_lines()):
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(lambda size, _: human(int(size)))
    axes.set_xlabel("size (bytes)")
    axes.set_ylabel(what)
    axes.grid(visible=True, which="major", alpha=0.3)


def _style(index: int) -> dict[str, Any]:
    """Colour, marker and line of a series: of the first 36 no two are equal."""
    round_ = index // len(STYLES)
    return {
        "color": STYLES[index % len(STYLES)][0],
        "marker": STYLES[(index + round_) % len(STYLES)][1],
        "linestyle": STYLES[(index + round_) % len(STYLES)][2],
        "markersize": 4,
    }


def _series(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    series: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["bytes"] > 0:
            operator = f" {row['op']}" if row["op"] not in (None, "sum") else ""
            label = f"{row['collective']} {row['dtype']}{operator}, {row['ranks']} ranks"
            series.setdefault(label, []).append(row)
    return series
