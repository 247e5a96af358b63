"""Runs programs and test suites of others under an MPI, without the library before it and with it.

    python bench/mpi/suites.py mpich coll=coll.txt osu=osu.txt --out out/mpi-suites.json

Each suite is a file of lines `COMMAND` or `RANKS: COMMAND`; the first form runs with --ranks. A
line `passes: REGEX` says what the output of the commands after it must have, besides the code 0.
`seconds: REGEX` has their own time as its group; without it, the time is that of the whole job.
Each command runs in an empty folder, whose files count as output as well. A row says what passed
and failed, how many calls of rank 0 ran on Sennit, and medians of --repeats, in which both ways
take turns. Rows of other suites in the file remain.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import mpi

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import result_files

SHARE = re.compile(
    r"sennit: mpi: rank 0: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on(.*)"
)


@dataclass
class Test:
    """A command with its ranks, what its output must have, and what there is its time."""

    ranks: int
    command: list[str]
    passes: re.Pattern[str]
    seconds: re.Pattern[str] | None


@dataclass
class Outcome:
    """What happened to a suite's tests, without the library or with it."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0


def read(file: Path, ranks: int) -> list[Test]:
    """The tests of a suite."""
    tests = []
    passes, seconds = re.compile(""), None
    for line in filter(None, map(str.strip, file.read_text(encoding="utf-8").splitlines())):
        if line.startswith("passes: "):
            passes = re.compile(line.removeprefix("passes: "))
        elif line.startswith("seconds: "):
            seconds = re.compile(line.removeprefix("seconds: "))
        else:
            own = re.match(r"(\d+): (.*)", line)
            words = shlex.split(own[2] if own else line)
            tests.append(Test(int(own[1]) if own else ranks, words, passes, seconds))
    return tests


def run(
    installed: mpi.Mpi, test: Test, variables: list[str], limit_s: float
) -> tuple[bool, float, str]:
    """Whether it passes, its seconds, and its output."""
    start = time.monotonic()
    command = [*installed.launcher(test.ranks), "env", *variables, *test.command]
    with tempfile.TemporaryDirectory() as folder:
        # `timeout` lets the launcher end its ranks.
        answer = subprocess.run(
            ["timeout", "-k", "10", str(limit_s), *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        seconds = time.monotonic() - start
        files = [file.read_text(errors="replace") for file in Path(folder).rglob("*.*")]
    output = "\n".join([answer.stdout, answer.stderr, *files])
    own = test.seconds.search(output) if test.seconds else None
    passes = answer.returncode == 0 and test.passes.search(output) is not None
    return passes, float(own[1]) if own else seconds, output


def measure(
    installed: mpi.Mpi, name: str, tests: list[Test], repeats: int, limit_s: float
) -> dict[str, Any]:
    """The row of the tests of a suite that have the same number of ranks."""
    ways = {"without": [], "with": [f"LD_PRELOAD={sennit.mpi_library()}", "SENNIT_MPI_STATS=1"]}
    outcomes = {way: Outcome() for way in ways}
    counts = [0, 0, 0]
    reasons = ["the ranks said nothing at their end"]
    before = os.getloadavg()[0]
    for test in tests:
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        passed = dict.fromkeys(ways, True)
        for _ in range(repeats):
            for way, variables in ways.items():
                passes, took, output = run(installed, test, variables, limit_s)
                seconds[way].append(took)
                passed[way] = passed[way] and passes
                for *found, why in SHARE.findall(output):
                    counts = [a + int(b) for a, b in zip(counts, found, strict=True)]
                    reasons.append(why)
        title = re.sub(r"\S*/", "", " ".join(test.command))
        for way, outcome in outcomes.items():
            outcome.seconds += median(seconds[way])
            outcome.passed += passed[way]
            outcome.failed += [] if passed[way] else [title]
        print(name, test.ranks, title, passed, {w: round(median(seconds[w]), 2) for w in ways})
    if counts[0] == 0 and tests[0].ranks > 1 and outcomes["with"].passed > 0:
        raise SystemExit(f"{name}: no call ran on Sennit {reasons[-1]}")
    calls = dict(zip(("on_sennit", "bytes", "passed_on"), counts, strict=True))
    return {
        "suite": name,
        "mpi": installed.name,
        "ranks": tests[0].ranks,
        **{way: vars(outcome) for way, outcome in outcomes.items()},
        "repeats": repeats,
        "load": [before, os.getloadavg()[0]],
        "calls": calls,
    }


def key(row: dict[str, Any]) -> tuple[str, str, int]:
    """A file has one row of each."""
    return row["suite"], row["mpi"], row["ranks"]


def main() -> None:
    """Runs and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mpi", choices=mpi.NAMES)
    parser.add_argument("suites", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120, help="seconds a command may take")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    (installed,) = mpi.find([arguments.mpi])
    rows = []
    for suite in arguments.suites:
        name, _, file = suite.partition("=")
        tests = read(Path(file), arguments.ranks)
        for ranks in sorted({test.ranks for test in tests}):
            chosen = [test for test in tests if test.ranks == ranks]
            rows.append(measure(installed, name, chosen, arguments.repeats, arguments.limit))
    if arguments.out.exists():
        new = {key(row) for row in rows}
        old = json.loads(arguments.out.read_text(encoding="utf-8"))["rows"]
        rows = [row for row in old if key(row) not in new] + rows
    whole = document(sorted(rows, key=key))
    program = {"schema": whole.pop("schema"), "program": "python bench/mpi/suites.py"}
    result_files.write(arguments.out, program | whole)


if __name__ == "__main__":
    main()
