"""Times every collective between host ranks and writes one result file.

    python bench/host.py --ranks 2 4 --out out/host.json

Runs `sennit bench` once a collective, checked and pinned, with rotating roots, and puts the rows
together. Barrier and an 8-byte all_reduce are timed between 64 ranks as well: more ranks than
cores must work. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import result_files

SIZES = ["-b", "8", "-e", "64M", "-f", "8"]
ROOTED = {"reduce", "broadcast", "gather", "scatter"}
SIZED = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", *sorted(ROOTED), "send_recv"]
MANY_RANKS = 64


def bench(*arguments: str) -> dict[str, Any]:
    """The document of one `sennit bench`."""
    command = [sys.executable, "-m", "sennit", "bench", *arguments, "--json", "-"]
    print("+", *command, file=sys.stderr)
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def documents(ranks: list[int]) -> list[dict[str, Any]]:
    """One document for each collective and number of ranks."""
    made = []
    for count in ranks:
        for collective in SIZED:
            roots = ["--root", "rotate"] if collective in ROOTED else []
            made.append(bench(collective, "--ranks", str(count), *SIZES, *roots))
        made.append(bench("barrier", "--ranks", str(count)))
    crowd = ["--ranks", str(MANY_RANKS), "-n", "50"]
    made.append(bench("barrier", *crowd))
    made.append(bench("all_reduce", *crowd, "-b", "8", "-e", "8"))
    return made


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    made = documents(arguments.ranks)
    ranks = " ".join(str(count) for count in arguments.ranks)
    whole = {"schema": made[0]["schema"], "program": f"python bench/host.py --ranks {ranks}"}
    whole |= dict(made[0], rows=[row for document in made for row in document["rows"]])
    result_files.write(arguments.out, whole)


if __name__ == "__main__":
    main()
