"""Puts the rows of sennit-compare into one result file and prints them as a table.

    python3 bench/gpu/collect.py --out FILE [--tests LOG] [--litmus LOG] ROWS.jsonl...

Files that are not there, since their part was not run, are left out. Times are medians in us; the
ratio is that of the faster NCCL's time to ours.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

# The package itself needs its extension, which is not built here; this module needs nothing of it.
ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "frontends/python/sennit/cli"), str(ROOT / "tools")]
import gpu_rows
import result_files

ENGINES = ("sennit ll128", "sennit slots", "sennit put", "sennit stream")


def answer(*command: str) -> str:
    """What a command prints; empty where it cannot be run."""
    try:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def lines_of(file: Path | None) -> list[str]:
    """None where there is no such file."""
    if file is None or not file.exists():
        return []
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


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
    """Shares through host memory, in percent, and kernels by hand, and how long they took."""
    shares = {name: time for name, time in measured["engines"].items() if name not in ENGINES}
    return "".join(
        f"\n  {name.removeprefix('sennit '):>14}: {time['p50']:.1f}"
        for name, time in shares.items()
    )


# A line of GoogleTest at the end of each test; of one with a parameter it may say which.
OUTCOME = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+).*\(\d+ ms\)$", re.MULTILINE)


def test_counts(log: str) -> dict[str, Any]:
    """How many tests there are of each outcome, which have failed, and whether all came to run.

    Ranks that are processes write their own lines about the same tests.
    """
    found: dict[str, set[str]] = {"OK": set(), "FAILED": set(), "SKIPPED": set()}
    for outcome, name in OUTCOME.findall(log):
        found[outcome].add(name)
    return {
        "passed": len(found["OK"] - found["FAILED"]),
        "failed": len(found["FAILED"]),
        "skipped": len(found["SKIPPED"]),
        "names_of_failed": sorted(found["FAILED"]),
        "ended": "Global test environment tear-down" in log,
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Prints a line a row."""
    print(
        f"{'collective':15}{'bytes':>11} {'mode':7}{'ours':>9}{'floor':>9}{'SMs':>5}"
        f"{'nccl':>9}{'windows':>9}{'staged':>9}{'ratio':>7}"
        f"{'ll128':>9}{'slots':>9}{'put':>9}{'stream':>9}"
    )
    for measured in rows:
        rivals = {rival["name"]: f"{rival['p50_us']:.1f}" for rival in measured["rivals"]}
        wrong = f"  {measured['wrong']} WRONG" if measured["wrong"] else ""
        print(
            f"{measured['collective']:15}{measured['bytes']:>11} {measured['mode']:7}"
            f"{measured['time_us']['p50']:>9.1f}"
            f"{gpu_rows.floor_text(measured, digits=1):>9}"
            f"{measured.get('sm_count', ''):>5}"
            f"{rivals.get('nccl', ''):>9}{rivals.get('nccl windows', ''):>9}"
            f"{rivals.get('staged', ''):>9}"
            f"{measured['ratio']:>7.2f}{engine_times(measured)}{wrong}"
            f"{share_times(measured)}"
        )


def main() -> None:
    """Collects and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--nccl-version", default=None)
    parser.add_argument("--tests", type=Path, help="what the tests of GPU ranks have printed")
    parser.add_argument("--litmus", type=Path, help="what the litmus programs have printed")
    parser.add_argument("rows", type=Path, nargs="*")
    arguments = parser.parse_args()
    lines = [line for file in arguments.rows for line in lines_of(file)]
    rows = [gpu_rows.row(json.loads(line)) for line in lines]
    document: dict[str, Any] = {
        "schema": 1,
        "program": "bench/gpu/run",
        "machine": machine(),
        "version": "0.1.0",
        "nccl": arguments.nccl_version,
        "commit": answer("git", "rev-parse", "HEAD") or None,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": rows,
    }
    if tests := lines_of(arguments.tests):
        document["tests"] = test_counts("\n".join(tests))
        print(f"tests: {document['tests']}")
    if litmus := lines_of(arguments.litmus):
        document["litmus"] = litmus
    result_files.write(arguments.out, document)
    if rows:
        show(rows)


if __name__ == "__main__":
    main()
