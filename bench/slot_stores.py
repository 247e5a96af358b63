"""Messages between two cores by plain and by streaming stores (slot_stores.cpp).

    cmake --build build/release --target sennit-slot-stores
    python bench/slot_stores.py --seconds 60 --out bench/results/current/slot-stores.json

Rows are medians of turns whose pings before and after are of one class: a host may move the cores
of a virtual machine from turn to turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from sennit.cli.bench_document import document

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tools"))
import result_files

CORES = (
    (40, "threads of one core"),
    (120, "cores of one last-level cache"),
    (10000, "cores of two last-level caches"),
)


def cores(ping_ns: float) -> str:
    """What cores with this ping share."""
    return next(name for limit, name in CORES if ping_ns < limit)


def rows(lines: list[dict[str, float]]) -> list[dict[str, Any]]:
    """A row for each distance and message size."""
    turns: dict[tuple[str, float], list[dict[str, float]]] = defaultdict(list)
    for line in lines:
        if cores(line["ping_ns"]) == cores(line["ping_ns_after"]):
            turns[cores(line["ping_ns"]), line["message_bytes"]].append(line)
    return [
        {"cores": where, "message_bytes": size, "bytes": 1 << 20, "turns": len(found)}
        | {
            key: median(line[key] for line in found)
            for key in ("ping_ns", "plain_us", "streaming_us", "chosen_us")
        }
        for (where, size), found in sorted(turns.items())
    ]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    program = [ROOT / "build/release/bench/sennit-slot-stores", str(arguments.seconds)]
    answer = subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout
    whole = document(rows([json.loads(line) for line in answer.splitlines()]))
    how = f"python bench/slot_stores.py --seconds {arguments.seconds:g}"
    result_files.write(arguments.out, {"schema": whole.pop("schema"), "program": how} | whole)


if __name__ == "__main__":
    main()
