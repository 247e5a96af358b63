"""Writes the results tables of README.md and docs/performance.md from bench/results.

python tools/make_results_table.py
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

# The package itself needs its extension; this module needs nothing of it.
sys.path.append(str(Path(__file__).resolve().parents[1] / "frontends/python/sennit/cli"))
import gpu_rows

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
README = ROOT / "README.md"
BEGIN, END = "<!-- results -->\n", "<!-- /results -->"
PERFORMANCE = ROOT / "docs/performance.md"
HOST_BEGIN, HOST_END = "<!-- host results -->\n", "<!-- /host results -->"
GPU_BEGIN, GPU_END = "<!-- gpu results -->\n", "<!-- /gpu results -->"

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"]
LARGEST_ELEMENT = 8
SIZES = {8: "8 B", 4096: "4 KB", 262144: "256 KB", 2097152: "2 MB", 16777216: "16 MB"}


def cell(rows: list[dict[str, Any]], collective: str, ranks: int, size: int) -> str:
    """Median microseconds of the row whose buffer is `size` bytes, rounded up to whole elements."""
    for row in rows:
        same = row["collective"] == collective and row["ranks"] == ranks
        if same and size <= row["bytes"] < size + LARGEST_ELEMENT * ranks:
            median = float(row["time_us"]["p50"])
            return f"{median:.1f}" if median < 100 else f"{median:.0f}"
    return ""


def table(document: dict[str, Any], file: str) -> str:
    """One machine: a line a collective, a column a size."""
    machine = document["machine"]
    rows = document["rows"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, commit {document['commit']}, "
        f"{document['date'][:10]} ([file](bench/results/{file})); median us of a call, every "
        "element checked:\n",
        "| collective | ranks | " + " | ".join(SIZES.values()) + " |",
        "|---|---|" + "---|" * len(SIZES),
    ]
    counts = sorted({row["ranks"] for row in rows if row["collective"] == "all_gather"})
    for collective in COLLECTIVES:
        for ranks in counts:
            cells = [cell(rows, collective, ranks, size) for size in SIZES]
            lines.append(f"| {collective} | {ranks} | " + " | ".join(cells) + " |")
    crowd = [row for row in rows if row["ranks"] > max(counts)]
    notes = [
        f"{row['collective']}{' of 8 B' if row['bytes'] else ''} {row['time_us']['p50']:.0f} us"
        for row in crowd
    ]
    which = " and ".join(str(ranks) for ranks in sorted({row["ranks"] for row in crowd}))
    words = f"{which} ranks on these {machine['cores']} cores: {', '.join(notes)}.\n"
    return "\n".join(lines) + "\n\n" + words


def readme(text: str) -> str:
    """README with the tables of the result files that index.json names for it."""
    index = json.loads((RESULTS / "index.json").read_text(encoding="utf-8"))
    tables = [
        table(json.loads((RESULTS / index[what]).read_text(encoding="utf-8")), index[what])
        for what in sorted(index)
        if what.startswith("readme-")
    ]
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n".join(tables) + END + rest.split(END)[1]


def size_name(size: int) -> str:
    """4096 as 4 KB, 4100 as 4100 B."""
    for unit, name in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def gpu_table(document: dict[str, Any], file: str) -> str:
    """One machine: a line a size, a column a collective: our time, its floor, and the ratio."""
    machine = document["machine"]
    firsts, seconds = first_and_second_modes(document["rows"])
    registered = [row for row in document["rows"] if row.get("registered")]
    text = (
        f"{len(machine['gpus'])} x {machine['gpus'][0]}, driver {machine['driver']}, NCCL "
        f"{document['nccl']}, commit {document['commit']}, {document['date'][:10]} "
        f"([file](../bench/results/{file})). Our us, of which the floor, and NCCL's time over "
        "ours:\n\n"
    ) + ratios(firsts, with_floors=True)
    if seconds:
        text += f"\nThe same without graphs:\n\n{ratios(seconds, with_floors=True)}"
    if registered:
        text += (
            "\nBoth libraries on registered memory of ncclMemAlloc, NCCL with its windows alone:"
            f"\n\n{ratios(registered, with_floors=True)}"
        )
    return text


def first_and_second_modes(
    rows: list[dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Calls as nodes of graphs where there are such; what there also is of them in streams.

    Without those on registered memory.
    """
    rows = [row for row in rows if not row.get("registered")]
    in_graphs = {(r["collective"], r["bytes"]) for r in rows if r["mode"] == "graph"}
    firsts: list[dict[str, Any]] = []
    seconds: list[dict[str, Any]] = []
    for row in rows:
        is_second = row["mode"] != "graph" and (row["collective"], row["bytes"]) in in_graphs
        (seconds if is_second else firsts).append(row)
    return firsts, seconds


def time_and_ratio(row: dict[str, Any], *, with_floor: bool) -> str:
    """'10.5, 4.0 (**1.62**)'."""
    floor = f", {max(gpu_rows.floors_us(row)):.1f}" if with_floor else ""
    return f"{row['time_us']['p50']:.1f}{floor} (**{row['ratio']:.2f}**)"


def ratios(rows: list[dict[str, Any]], *, with_floors: bool = False) -> str:
    """A line a size, a column a collective: our time, and the ratio to the best rival's."""
    cells = {(row["collective"], row["bytes"]): row for row in rows}
    sizes = sorted({size for _, size in cells})
    names = [name for name in COLLECTIVES if any(name == found for found, _ in cells)]
    lines = ["| bytes | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for size in sizes:
        row = [cells.get((collective, size)) for collective in names]
        texts = [time_and_ratio(cell, with_floor=with_floors) if cell else "" for cell in row]
        lines.append(f"| {size_name(size)} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n"


def geometric_means(rows: list[dict[str, Any]]) -> str:
    """'all_reduce 1.55 (least 1.17)' for each collective."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[row["collective"]].append(row["ratio"])
    return ", ".join(
        f"{name} {geometric_mean(values):.2f} (least {min(values):.2f})"
        for name, values in found.items()
    )


def host_table(document: dict[str, Any], file: str) -> str:
    """One number of ranks, beside MPI."""
    machine = document["machine"]
    rows = document["rows"]
    versions = sorted({rival["version"] for row in rows for rival in row["rivals"]})
    return (
        f"{rows[0]['ranks']} ranks on {machine['cores']} cores of an {machine['cpu']}, "
        f"{' and '.join(versions)}, commit {document['commit']}, {document['date'][:10]} "
        f"([file](../bench/results/{file})). Our us, and the faster MPI's time over ours; "
        f"geometric means: {geometric_means(rows)}.\n\n"
    ) + ratios(rows)


def performance(text: str) -> str:
    """The page on performance, with the tables of the files that index.json names for it."""
    index = json.loads((RESULTS / "index.json").read_text(encoding="utf-8"))

    def read(what: str) -> tuple[dict[str, Any], str]:
        return json.loads((RESULTS / index[what]).read_text(encoding="utf-8")), index[what]

    before, rest = text.split(GPU_BEGIN)
    gpus = [gpu_table(*read(what)) for what in ("gpu-h200x4", "gpu-h200x2")]
    text = before + GPU_BEGIN + "\n".join(gpus) + GPU_END + rest.split(GPU_END)[1]
    tables = [host_table(*read(what)) for what in sorted(index) if what.startswith("host-mpi-")]
    before, rest = text.split(HOST_BEGIN)
    return before + HOST_BEGIN + "\n".join(tables) + HOST_END + rest.split(HOST_END)[1]


def main() -> None:
    """Rewrites the tables."""
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    PERFORMANCE.write_text(performance(PERFORMANCE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
