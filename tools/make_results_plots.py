"""Draws the pictures in docs/pictures, of runs in bench/results/current.

    python tools/make_results_plots.py [--out DIR]

A picture has the name of its run, and says of which commit and day it is.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import result_files
import small_svg
from make_results_table import ROOT, first_and_second_modes, size_name
from sennit.cli import gpu_rows
from sennit.cli.plot import STYLES, save_plot
from sennit.cli.plot_messages import save_messages

PICTURES = ROOT / "docs/pictures"
Rows = list[dict[str, Any]]
# "sennit share 8": copy engines; "sennit sm share 30", and what else comes: next to kernels.
SHARE = re.compile(r"sennit (?:\w+ )?share (\d+)$")
FOLLOWS = "sennit share dynamic"
ALONE = ("sennit put", "sennit stream")
"""Ways of a message over NVLink alone, next to a share of 0."""


def read(name: str) -> Rows:
    """The rows of a run."""
    rows: Rows = result_files.read(name)["rows"]
    return rows


# ---- Ratios by size ----


def draw_ratios(what: str, file: Path) -> None:
    """Our time by size, and that of the faster NCCL over it, a line a collective."""
    rows, _ = first_and_second_modes(read(what))
    save_plot(file, sorted(rows, key=lambda row: int(row["bytes"])))


def draw_groups(what: str, file: Path) -> None:
    """Times of algorithms within and between groups, and of plain packets through host memory."""
    rows = [(row["what"], row) for row in read(what) if row["what"].startswith("groups ")]
    sizes = {row["bytes"] for _, row in rows}
    rows += [
        ("all over path host", row)
        for row in read("h200x4-nop2p")
        if row["collective"] == "all_reduce" and row["bytes"] in sizes
    ]
    save_plot(
        file,
        [
            {
                **row,
                "collective": f"{name.removeprefix('groups ')}, all_reduce",
                "ratio": None,  # NCCL has NVLink between all
                "busbw_GBps": busbw_gbps(row, row["time_us"]["p50"]),
            }
            for name, row in rows
        ],
    )


def busbw_gbps(row: dict[str, Any], time_us: float) -> float:
    """The bytes of the busiest wire over the time."""
    return gpu_rows.WIRE_GBPS * gpu_rows.floors_us(row)[1] / time_us


def draw_messages(what: str, file: Path) -> None:
    """How many messages of which size a step of training sends."""
    save_messages(file, read(what))


# ---- Times by share ----


def title_of(row: dict[str, Any]) -> str:
    """What distinguishes one panel from the next."""
    parts = [str(row["collective"]), f"{row['ranks']} GPUs"]
    if row.get("bidirectional"):
        parts.append("both ways")
    if row.get("sm_budget"):
        parts.append(f"{row['sm_budget']} thread block{'s' if row['sm_budget'] > 1 else ''}")
    if row.get("what") == "loaded":
        parts.append("others use the host")
    return ", ".join(parts)


def times_by_share(row: dict[str, Any]) -> dict[int, float]:
    """Us by percent through host memory; 0 is the best way without it.

    Sennit's own choice is such a way where the row is of all ranks, as they were timed with shares
    (since then the `host_share` rows of src/select/profiles/h200.profile share more); where it is
    of a pair, a share of 0 and the ways next to it say all.
    """
    engines = {name: float(time["p50"]) for name, time in row["engines"].items()}
    times: dict[int, float] = {}
    for name, time in engines.items():
        if found := SHARE.match(name):
            share = int(found.group(1))
            times[share] = min(time, times.get(share, time))
    alone = [engines[name] for name in ALONE if name in engines]
    if "pair" not in row:
        alone.append(float(row["time_us"]["p50"]))
    if times and alone:
        times[0] = min([*alone, times.get(0, alone[0])])
    return dict(sorted(times.items())) if 0 in times else {}


def draw_lines(what: str, file: Path) -> None:
    """Of pairs, by share and size; a second run and earlier ones are left to the file."""
    shown = (None, "loaded", "budget")
    draw_panels([row for row in read(what) if "pair" in row and row.get("what") in shown], file)


def draw_panels(measured: Rows, file: Path) -> None:
    """A panel for each title of rows that have times by share."""
    panels: dict[str, Rows] = defaultdict(list)
    for row in measured:
        if times_by_share(row):
            panels[title_of(row)].append(row)
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = min(len(panels), 2)
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(5.5 * columns, 4.2 * lines), layout="constrained", squeeze=False
    )
    for axes, (title, rows) in zip(grid.flat, panels.items(), strict=False):
        draw_panel(axes, title, rows)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def draw_panel(axes: Any, title: str, rows: Rows) -> None:
    """One line a size; where NCCL is, a thin one of the same colour; a star where shares follow."""
    beyond = 2 + max(max(times_by_share(row)) for row in rows)
    for (colour, marker, line), row in zip(STYLES, rows, strict=False):
        times = times_by_share(row)
        alone = times[0]
        axes.plot(
            list(times),
            [time / alone for time in times.values()],
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=4,
            label=f"{size_name(row['bytes'])}: {alone:.0f} us without",
        )
        axes.axhline(row["rival"]["p50_us"] / alone, color=colour, linestyle=line, linewidth=0.6)
        if FOLLOWS in row["engines"]:
            follows = float(row["engines"][FOLLOWS]["p50"]) / alone
            axes.plot([beyond], [follows], color=colour, marker="*", markersize=9)
    axes.axhline(1, color="black", linewidth=0.8)
    stars = "; star: follows the load" if any(FOLLOWS in row["engines"] for row in rows) else ""
    axes.set_title(f"{title}\n(thin: NCCL{stars})", fontsize=10)
    axes.set_xlabel("percent through host memory")
    axes.set_ylabel("time / time over NVLink alone")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)


PLOTS: dict[str, Callable[[str, Path], None]] = {
    "host-mpi-2": draw_ratios,
    "gpu-h200x4": draw_ratios,
    "gpu-h200x2": draw_ratios,
    "h200x4-nop2p": draw_ratios,
    "h200x4-groups": draw_groups,
    "h200x2-lines": draw_lines,
    "ddp-messages": draw_messages,
}
"""By the names of runs; each is shown on a page of docs/."""


def about(name: str) -> str:
    """The run that a picture shows."""
    run = result_files.read(name)
    return f"bench/results/current/{name}.json, commit {run['commit']}, {run['date'][:10]}"


def draw(name: str, folder: Path) -> Path:
    """Draws the picture of a run."""
    file = folder / f"{name}.svg"
    with mpl.rc_context(small_svg.SETTINGS):
        PLOTS[name](name, file)
    svg = small_svg.small(file.read_text(encoding="utf-8"), about(name))
    file.write_text(svg, encoding="utf-8")
    return file


def main() -> None:
    """Draws all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=PICTURES)
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    for name in PLOTS:
        draw(name, arguments.out)


if __name__ == "__main__":
    main()
