"""Runs a program for NCCL over Sennit's library, and counts what of it ran there.

    python3 bench/gpu/preloaded.py --ours LIB --out FILE [--least-calls N] PROGRAM.py [ARGUMENT]...

LIB is preloaded. The program passes where it ends well and at least N calls ran on Sennit, of all
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

SHARE = re.compile(r"ends: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on")


def share_of(folder: Path) -> dict[str, int]:
    """Calls and bytes, as the library says at the end of each communicator of each process."""
    total = {"calls": 0, "bytes": 0, "passed_on": 0}
    for log in folder.glob("*.log"):
        for found in SHARE.findall(log.read_text(errors="replace")):
            for key, number in zip(total, found, strict=True):
                total[key] += int(number)
    return total


def main() -> int:
    """Run it, print its share, write the file, and give the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--least-calls", type=int, default=1)
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sennit-share-") as folder:
        env = {**os.environ, "LD_PRELOAD": options.ours}
        env.update(SENNIT_DEBUG="INFO", SENNIT_DEBUG_SUBSYS="nccl")
        env["SENNIT_DEBUG_FILE"] = f"{folder}/%p.log"
        code = subprocess.run([sys.executable, *options.program], env=env, check=False).returncode
        share = share_of(Path(folder))
    ran = share["calls"] + share["passed_on"]
    percent = 100 * share["calls"] / ran if ran else 0
    passed = code == 0 and share["calls"] >= options.least_calls
    name = Path(options.program[0]).stem
    print(
        f"{name}: {percent:.0f} % of {ran} calls ran on Sennit, {share['bytes']} bytes"
        f"{'' if passed else f'; FAILED: exit code {code}, {options.least_calls} calls awaited'}",
        flush=True,
    )
    document = {"passed": passed, "exit_code": code, "ran_on_sennit": share}
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
