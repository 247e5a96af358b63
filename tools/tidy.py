"""Runs clang-tidy over the units that it has not found clean as they are.

    python tools/tidy.py --build build/tidy [--all]

A unit is a source with what it includes of this repository. One that was clean is checked again
when any of these files, .clang-tidy, clang-tidy's version or the compiler's options change
(tools/known_good.py). Of the units that were never clean on this machine, an eighth of the tree is
checked in one run, those that changed last first. `--all` checks every unit.

Tests go without the analyzer. base/fmt.cpp is none of our code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from check_layers import INCLUDE
from known_good import KnownGood, git_lines, sources, state_of

ROOTS = ["src", "include", "tests", "frontends/mpi", "frontends/nccl", ""]
"""Folders that includes may be relative to, besides that of the file itself."""
PART = 8
NO_ANALYZER = "-checks=-clang-analyzer-*"
PRODUCT = re.compile(r"(src|bench|frontends/(mpi|nccl))/(?!base/fmt)(?!.*_test\.cpp)")


@dataclass(frozen=True)
class Unit:
    """A source to check: its path in the repository, and what its result depends on."""

    source: str
    options: tuple[str, ...]
    files: frozenset[str]
    state: str


@cache
def direct_includes(root: Path, file: str) -> frozenset[str]:
    """The files of the repository that a file's own lines may mean.

    Where several could be meant, all of them: one too many costs time alone.
    """
    names = INCLUDE.findall((root / file).read_text(encoding="utf-8", errors="replace"))
    folders = [str(Path(file).parent), *ROOTS]
    candidates = {os.path.normpath(Path(folder) / name) for name in names for folder in folders}
    return frozenset(path for path in candidates if (root / path).is_file())


def included(root: Path, unit: str) -> frozenset[str]:
    """The files of the repository that a source includes, in any number of steps, and itself."""
    seen = {unit}
    waiting = [unit]
    while waiting:
        new = direct_includes(root, waiting.pop()) - seen
        seen |= new
        waiting += new
    return frozenset(seen)


def options_for(source: str) -> tuple[str, ...] | None:
    """The options of clang-tidy for a source; None for one that it does not check."""
    if source.endswith("_test.cpp"):
        return (NO_ANALYZER,)
    return () if PRODUCT.match(source) else None


def units_of(root: Path, build: Path, version: str) -> list[Unit]:
    """Each source of a build tree that is checked."""
    rules = state_of(root, sources(root, "*.clang-tidy"), version)
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    units = {}
    for entry in entries:
        source = os.path.relpath(entry["file"], root)
        options = options_for(source)
        if options is not None:
            files = included(root, source)
            command = entry["command"].replace(str(root), "")
            state = state_of(root, files, rules, command, *options)
            units[source] = Unit(source, options, files, state)
    return list(units.values())


def ages(root: Path) -> dict[str, int]:
    """How many commits ago a file changed last; 0 for what is not committed."""
    found: dict[str, int] = dict.fromkeys(git_lines(root, "diff", "--name-only", "HEAD"), 0)
    age = 0
    for line in git_lines(root, "log", "-n", "200", "--format=%x00", "--name-only"):
        if line == "\0":
            age += 1
        elif line:
            found.setdefault(line, age)
    return found


def chosen(
    units: Sequence[Unit], known: KnownGood, ages: Mapping[str, int], head: str
) -> list[Unit]:
    """The units to check now, as the head of this file says.

    Where many changed at one time, which of them come first is another draw for each commit.
    """
    unknown = [unit for unit in units if not known.holds(unit.source, unit.state)]
    changed = [unit for unit in unknown if known.has_seen(unit.source)]
    new = [unit for unit in unknown if not known.has_seen(unit.source)]

    def order(unit: Unit) -> tuple[int, int]:
        age = min((ages.get(file, sys.maxsize) for file in unit.files), default=sys.maxsize)
        return age, zlib.crc32(f"{head} {unit.source}".encode())

    return changed + sorted(new, key=order)[: -(-len(units) // PART)]


def is_clean(build: Path, unit: Unit) -> bool:
    """Checks one unit, and prints what clang-tidy finds."""
    command = ["clang-tidy", "-quiet", f"-p={build}", *unit.options, unit.source]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        print(f"{unit.source}:\n{answer.stdout}{answer.stderr}", flush=True)
    return answer.returncode == 0


def main() -> int:
    """Checks, remembers what was clean; status 1 if anything was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--build", type=Path, required=True, help="tree with compile_commands.json")
    parser.add_argument("--all", action="store_true", help="every unit, whatever is known")
    arguments = parser.parse_args()
    root = Path.cwd()
    version = subprocess.run(
        ["clang-tidy", "--version"], check=True, capture_output=True, text=True
    ).stdout
    known = KnownGood("tidy")
    units = units_of(root, arguments.build, version)
    head = "".join(git_lines(root, "rev-parse", "HEAD"))
    now = units if arguments.all else chosen(units, known, ages(root), head)
    clean = sum(known.holds(unit.source, unit.state) for unit in units if unit not in now)
    unchecked = len(units) - len(now) - clean
    print(f"clang-tidy: {len(now)} of {len(units)} units; {clean} known clean", end="")
    print(f"; {unchecked} left to later runs" if unchecked else "", flush=True)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda unit: is_clean(arguments.build, unit), now))
    for unit, good in zip(now, results, strict=True):
        if good:
            known.add(unit.source, unit.state)
        else:
            known.see(unit.source)  # it is checked each time until it is clean
    known.save()
    bad = results.count(False)
    print(f"clang-tidy: {bad} units with findings" if bad else "clang-tidy: no findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
