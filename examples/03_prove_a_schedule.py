"""Print a schedule, prove it, and prove it for other numbers of ranks. Nothing is run.

python 03_prove_a_schedule.py [COLLECTIVE ALGORITHM RANKS]
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any


def sennit(*arguments: str) -> dict[str, Any]:
    """The JSON answer of one command of `sennit` (which comes with the extra `cli`)."""
    command = [sys.executable, "-m", "sennit", *arguments, "--json", "-"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


def main(collective: str, algorithm: str, ranks: str) -> None:
    """Shows what can be known about a schedule before any data moves."""
    shown = sennit("show", collective, "--algorithm", algorithm, "--ranks", ranks)
    print(shown["text"])

    # Live for any number of tiles, free of races, every contribution exactly once, on the object
    # that the executor would run.
    proof = shown["proof"]
    print(f"proved with {proof['slots']} slots: {proof['proved']}")
    print(f"also in place: {proof['in_place']}, summed in rank order: {proof['reproducible']}")

    swept = sennit(
        "verify", "--collective", collective, "--algorithm", algorithm, "--ranks", "1:16"
    )
    print(f"1 to 16 ranks: {swept['instances']} instances, {swept['failed']} failed")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ("all_reduce", "ring", "3")))
