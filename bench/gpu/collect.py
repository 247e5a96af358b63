"""Puts the rows of sennit-compare into one result file and prints them as a table.

    python3 bench/gpu/collect.py --out FILE ROWS.jsonl...

Times are medians in us; the ratio is that of the faster NCCL's time to ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# The package itself needs its extension, which is not built here; this module needs nothing of it.
sys.path.append(str(Path(__file__).resolve().parents[2] / "frontends/python/sennit/cli"))
import gpu_rows

ENGINES = ("sennit ll128", "sennit slots", "sennit put", "sennit stream")


def answer(*command: str) -> str:
    """What a command prints; empty where it cannot be run."""
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """The GPUs of this machine, and their driver."""
    query = answer("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    gpus = [line.split(", ") for line in query.splitlines()]
    return {
        "name": answer("hostname"),
        "gpus": [gpu[0] for gpu in gpus],
        "driver": gpus[0][1] if gpus else None,
    }


def engine_times(measured: dict[str, Any]) -> str:
    """Columns of Sennit's ways; empty where they were not timed."""
    engines = measured["engines"]
    return "".join(
        f"{engines[name]['p50']:>9.1f}" if name in engines else " " * 9 for name in ENGINES
    )


def share_times(measured: dict[str, Any]) -> str:
    """What goes through host memory, in percent, and how long that took."""
    shares = {name: time for name, time in measured["engines"].items() if name not in ENGINES}
    return "".join(
        f"\n  {name.removeprefix('sennit '):>14}: {time['p50']:.1f}"
        for name, time in shares.items()
    )


def show(rows: list[dict[str, Any]]) -> None:
    """Prints a line a row."""
    print(
        f"{'collective':15}{'bytes':>11} {'mode':7}{'ours':>9}{'nccl':>9}{'windows':>9}{'ratio':>7}"
        f"{'ll128':>9}{'slots':>9}{'put':>9}{'stream':>9}"
    )
    for measured in rows:
        rivals = {rival["name"]: f"{rival['p50_us']:.1f}" for rival in measured["rivals"]}
        wrong = f"  {measured['wrong']} WRONG" if measured["wrong"] else ""
        print(
            f"{measured['collective']:15}{measured['bytes']:>11} {measured['mode']:7}"
            f"{measured['time_us']['p50']:>9.1f}"
            f"{rivals.get('nccl', ''):>9}{rivals.get('nccl windows', ''):>9}"
            f"{measured['ratio']:>7.2f}{engine_times(measured)}{wrong}"
            f"{share_times(measured)}"
        )


def main() -> None:
    """Collects and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nccl-version", default=None)
    parser.add_argument("rows", type=Path, nargs="+")
    arguments = parser.parse_args()
    lines = [line for file in arguments.rows for line in file.read_text().splitlines()]
    rows = [gpu_rows.row(json.loads(line)) for line in lines]
    document = {
        "schema": 1,
        "machine": machine(),
        "version": "0.1.0",
        "nccl": arguments.nccl_version,
        "commit": answer("git", "rev-parse", "HEAD") or None,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": rows,
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    show(rows)


if __name__ == "__main__":
    main()
