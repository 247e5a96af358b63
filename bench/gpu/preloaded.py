"""Runs a program for NCCL over Sennit's library, and counts what of it ran there.

    python3 bench/gpu/preloaded.py --ours LIB --out FILE [--part NAME]... PROGRAM.py

LIB is preloaded. Each part is a run of its own, with its NAME as the argument; without parts there
is one run, without arguments. In each the program says what it has made, in a line like "made: 6
calls of 96 bytes"; where it cannot know which of several ways was taken, "or" is between them. A
part passes where it ends well and these calls and bytes ran on Sennit, no more and no fewer, of all
its processes together: another NCCL may lie in its process as well, as that of JAX's own package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHARE = re.compile(r"ends: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on")
MADE = re.compile(r"(\d+) calls of (\d+) bytes")


def share_of(folder: Path) -> dict[str, int]:
    """Calls and bytes, as the library says at the end of each communicator of each process."""
    total = {"calls": 0, "bytes": 0, "passed_on": 0}
    for log in folder.glob("*.log"):
        for found in SHARE.findall(log.read_text(errors="replace")):
            for key, number in zip(total, found, strict=True):
                total[key] += int(number)
    return total


def made_of(line: str, share: dict[str, int]) -> dict[str, int]:
    """What the program says it made: of several ways the one that ran, or the first."""
    ways = [{"calls": int(calls), "bytes": int(size)} for calls, size in MADE.findall(line)]
    ran = {key: share[key] for key in ("calls", "bytes")}
    return ran if ran in ways else (ways or [{"calls": 0, "bytes": 0}])[0]


def run_part(ours: str, program: str, part: str | None) -> dict[str, Any]:
    """One run: its exit code, what it made, what of that ran on Sennit, and whether all did."""
    line = ""
    with tempfile.TemporaryDirectory(prefix="sennit-share-") as folder:
        env = {**os.environ, "LD_PRELOAD": ours}
        env.update(SENNIT_DEBUG="INFO", SENNIT_DEBUG_SUBSYS="nccl")
        env["SENNIT_DEBUG_FILE"] = f"{folder}/%p.log"
        command = [sys.executable, program, *([part] if part else [])]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            for printed in process.stdout or ():
                print(printed, end="", flush=True)
                line = printed if printed.startswith("made: ") else line
        share = share_of(Path(folder))
    made = made_of(line, share)
    is_all = made["calls"] > 0 and made == {key: share[key] for key in made}
    return {
        "passed": process.returncode == 0 and is_all and share["passed_on"] == 0,
        "exit_code": process.returncode,
        "made": made,
        "ran_on_sennit": share,
    }


def report(name: str, result: dict[str, Any]) -> None:
    """One line: calls and bytes on Sennit, of those that the program made."""
    shares = []
    for key in ("calls", "bytes"):
        ran, made = result["ran_on_sennit"][key], result["made"][key]
        percent = f"{100 * ran / made:.1f} %" if made else "nothing was said to be made"
        shares.append(f"{ran} of {made} {key} ({percent})")
    verdict = "passed" if result["passed"] else f"FAILED, exit code {result['exit_code']}"
    passed_on = result["ran_on_sennit"]["passed_on"]
    print(
        f"{name}: {', '.join(shares)} ran on Sennit, {passed_on} passed on: {verdict}", flush=True
    )


def total(results: list[dict[str, Any]], key: str) -> dict[str, int]:
    """The sums of all parts."""
    return {name: sum(result[key][name] for result in results) for name in results[0][key]}


def main() -> int:
    """Run each part, print its share, write the file, and give the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", action="append")
    parser.add_argument("program")
    options = parser.parse_args()
    program = Path(options.program).stem
    parts: dict[str, dict[str, Any]] = {}
    for part in options.part or [None]:
        name = part or program
        parts[name] = run_part(options.ours, options.program, part)
        report(f"{program} {part}" if part else program, parts[name])
    results = list(parts.values())
    document = {
        "passed": all(result["passed"] for result in results),
        "made": total(results, "made"),
        "ran_on_sennit": total(results, "ran_on_sennit"),
        "parts": parts,
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if document["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
