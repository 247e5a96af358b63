"""Runs the C++ test programs of a build tree, then pytest, and adds up what they report.

A skip says why by a label before a colon ("gpu1: needs one GPU"). How many tests each label skips
is committed in tests/expected_skips.txt, so that a test cannot fall silent unseen.

A program that CMake labels "in_parts" runs as parts of its tests (shards of GoogleTest), as many at
a time as there are cores.

Where the tests are spread over several runs, in one build tree and another, each run writes its
counts to a file (`--counts`), and a last one adds them up (`--sum`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

# Four times what the slowest part takes with a sanitizer.
PROGRAM_TIMEOUT_S = 900
# Each test of pytest has a limit of its own. All of them take a third of this.
PYTEST_TIMEOUT_S = 3000
# Of what GoogleTest prints: the test that a program is at, which matters only if it stays there.
BEGUN = "[ RUN      ] "
NOT_SHOWN = re.compile(r"\[( RUN      |       OK |-{10})\]|Running main\(\) from|$")
# Tests take between a millisecond and a minute: with many small parts the cores end at one time.
PARTS_PER_CORE = 4
PARTS_LABEL = "in_parts"
# How many characters of a failed test's message, and of its program's output, the summary repeats.
FAILURE_SHOWN = 2000


@dataclass
class Tally:
    """Counts of tests; skips by label; of each failed test its name and message."""

    passed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return len(self.failures)

    def add(self, other: Tally) -> None:
        """Adds the counts of another tally to this one."""
        self.passed += other.passed
        self.skips += other.skips
        self.failures += other.failures


@dataclass
class Program:
    """A test program; `in_parts` if its tests do not see each other."""

    name: str
    command: list[str]
    in_parts: bool


def skip_label(reason: str) -> str:
    """The word before the first colon of a reason, or "other".

    GoogleTest puts a line with file and line number in front of a reason.
    """
    label = re.sub(r"^\S+:\d+\n", "", reason.strip()).partition(":")[0]
    return label if label.isidentifier() else "other"


def read_report(report: Path) -> Tally:
    """Counts the test cases of a JUnit file, as GoogleTest and pytest write it."""
    tally = Tally()
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        said = case.findtext("failure", case.findtext("error"))
        if said is not None:
            name = f"{case.get('classname')}.{case.get('name')}"
            tally.failures.append(f"{name}: {said[-FAILURE_SHOWN:]}")
        elif skipped is not None:
            tally.skips[skip_label(skipped.get("message") or skipped.text or "")] += 1
        elif case.get("status") == "notrun":
            tally.skips["disabled"] += 1
        else:
            tally.passed += 1
    return tally


def run(
    command: Sequence[str],
    report: Path,
    output: IO[str] | None = None,
    limit_s: float | None = None,
) -> Tally:
    """Runs one program; one that fails without naming a test counts as one failed test.

    So does one that ends well and leaves no report: whatever it has run cannot be counted.
    What it prints goes to `output`, if there is one.
    """
    limit_s = limit_s or PROGRAM_TIMEOUT_S
    try:
        status = subprocess.run(
            command, check=False, timeout=limit_s, stdout=output, stderr=output
        ).returncode
    except subprocess.TimeoutExpired:
        status = -1
        print(f"no end within {limit_s} s", file=output)
    try:
        tally = read_report(report)
    except (OSError, ET.ParseError):
        tally = Tally(failures=[f"{' '.join(command)} left no report"])
    if status != 0 and not tally.failures:
        tally.failures.append(f"{' '.join(command)} reported no failed test; status {status}")
    return tally


def run_part(command: Sequence[str], folder: Path, part: int, parts: int) -> Tally:
    """Runs one part of a program's tests, and prints in one piece what matters of its output."""
    report = folder / f"{part}.xml"
    shard = [f"GTEST_TOTAL_SHARDS={parts}", f"GTEST_SHARD_INDEX={part}"]
    with (folder / f"{part}.log").open("w+", encoding="utf-8", errors="replace") as output:
        tally = run(["env", *shard, *command, f"--gtest_output=xml:{report}"], report, output)
        output.seek(0)
        lines = output.read().splitlines()
    shown = [line for line in lines if not NOT_SHOWN.match(line)]
    if not report.exists():
        begun = [line.removeprefix(BEGUN) for line in lines if line.startswith(BEGUN)]
        shown.append(f"the last test begun: {begun[-1] if begun else 'none'}")
    text = "\n".join(shown)
    print(text + "\n", end="", flush=True)  # one write: parts end at once
    if tally.failures:  # a crash, or what a sanitizer found at the end, has no other place
        tally.failures[-1] += "\n" + text[-FAILURE_SHOWN:]
    return tally


def run_in_parts(command: Sequence[str], folder: Path, parts: int, at_once: int) -> Tally:
    """Runs the tests of one program in parts, so many at a time."""
    total = Tally()
    with ThreadPoolExecutor(at_once) as pool:
        for tally in pool.map(lambda part: run_part(command, folder, part, parts), range(parts)):
            total.add(tally)
    return total


def run_program(program: Program, folder: Path, cores: int) -> Tally:
    """Runs a test program in the way that suits it; its reports go to a folder of its own."""
    reports = folder / program.name
    reports.mkdir()
    start = time.monotonic()
    print("+", *program.command, flush=True)
    parts, at_once = (cores * PARTS_PER_CORE, cores) if program.in_parts else (1, 1)
    tally = run_in_parts(program.command, reports, parts, at_once)
    counts = f"{tally.passed} passed, {tally.failed} failed, {describe(tally.skips)}"
    print(f"{program.name}: {counts}, {time.monotonic() - start:.0f} s", flush=True)
    return tally


def test_programs(build: Path, only: Sequence[str] | None, without: Sequence[str]) -> list[Program]:
    """Each test program of the build tree, or those that `only` names; none that `without` does.

    ctest knows no command for a program that was not built: a program asked for has to be.
    """
    answer = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"],
        check=True,
        capture_output=True,
        text=True,
    )
    tests = json.loads(answer.stdout)["tests"]
    wanted = [
        test
        for test in tests
        if (only is None or test["name"] in only) and test["name"] not in without
    ]
    if missing := [test["name"] for test in wanted if "command" not in test]:
        raise SystemExit(f"{build} has not built {', '.join(missing)}")
    return [
        Program(test["name"], test["command"], PARTS_LABEL in labels_of(test)) for test in wanted
    ]


def labels_of(test: Mapping[str, Any]) -> list[str]:
    """The labels of a test, as ctest describes it."""
    properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
    return list(properties.get("LABELS", []))


def read_expected_skips(lines: Iterable[str], present: Iterable[str]) -> Counter[str]:
    """Lines "label count"; labels whose hardware is present expect no skip."""
    expected: Counter[str] = Counter()
    for line in lines:
        words = line.partition("#")[0].split()
        if words and words[0] not in present and words[1] != "any":
            expected[words[0]] = int(words[1])
    return expected


def read_free_labels(lines: Iterable[str]) -> set[str]:
    """Lines "label any": what depends on the system that the tests happen to run on."""
    words = [line.partition("#")[0].split() for line in lines]
    return {label for label, *count in filter(None, words) if count == ["any"]}


def found_here() -> set[str]:
    """Labels of packages that tests need and this machine has."""
    found = set()
    if Path("/usr/include/simgrid/s4u.hpp").exists():
        found.add("simgrid")
    if any(Path().glob(".rivals/*/bin/mpiexec")):
        found.add("mpi")
    found |= {name for name in ("torch", "zfpy") if importlib.util.find_spec(name)}
    return found


def is_as_committed(skips: Counter[str], present: set[str]) -> bool:
    """Whether as many tests are skipped as tests/expected_skips.txt says; prints it if not."""
    lines = Path("tests/expected_skips.txt").read_text(encoding="utf-8").splitlines()
    expected = read_expected_skips(lines, present)
    free = read_free_labels(lines)
    if Counter({label: n for label, n in skips.items() if label not in free}) == expected:
        return True
    print(f"expected {describe(expected)}: see tests/expected_skips.txt")
    return False


def write_counts(file: Path, tally: Tally) -> None:
    """Writes what `read_counts` reads."""
    file.write_text(json.dumps(vars(tally)), encoding="utf-8")


def read_counts(files: Iterable[Path]) -> Tally:
    """The sum of the counts in these files; one that is missing is a failed run."""
    total = Tally()
    for file in files:
        try:
            counts = json.loads(file.read_text(encoding="utf-8"))
        except OSError:
            total.failures.append(f"{file}: this run left no counts")
            continue
        total.add(Tally(**{**counts, "skips": Counter(counts["skips"])}))
    return total


def describe(skips: Counter[str]) -> str:
    """'3 skipped (gpu1 2, slow 1)'."""
    why = ", ".join(f"{label} {count}" for label, count in sorted(skips.items()))
    return f"{skips.total()} skipped" + (f" ({why})" if why else "")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    work = parser.add_mutually_exclusive_group(required=True)
    work.add_argument("--build", type=Path, help="build tree of the C++ tests")
    work.add_argument("--sum", type=Path, nargs="+", help="add up what these files count")
    parser.add_argument(
        "--only", action="append", help="run only the test program of this name; may be repeated"
    )
    parser.add_argument(
        "--without", action="append", default=[], help="leave out this program; may be repeated"
    )
    parser.add_argument("--counts", type=Path, help="write the counts to this file")
    parser.add_argument("--pytest", nargs="*", default=[], help="folders for pytest")
    parser.add_argument(
        "--present", default="", help="labels, comma-separated, whose hardware this machine has"
    )
    return parser.parse_args()


def run_all(arguments: argparse.Namespace) -> Tally:
    """Runs the test programs and pytest, as the command line says."""
    total = Tally()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder)
        cores = len(os.sched_getaffinity(0))
        for program in test_programs(arguments.build, arguments.only, arguments.without):
            total.add(run_program(program, report, cores))
        if arguments.pytest:
            file = report / "pytest.xml"
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={file}"]
            print("+", *command, *arguments.pytest, flush=True)
            total.add(run([*command, *arguments.pytest], file, limit_s=PYTEST_TIMEOUT_S))
    return total


def main() -> int:
    """Runs everything and prints the counts. Status 0 if all is as committed."""
    arguments = parse_arguments()
    total = read_counts(arguments.sum) if arguments.sum else run_all(arguments)
    if arguments.counts:
        write_counts(arguments.counts, total)
    is_part = arguments.only or arguments.without or arguments.counts or not arguments.pytest
    present = found_here() | set(arguments.present.split(","))
    as_committed = (is_part and not arguments.sum) or is_as_committed(total.skips, present)
    for failure in total.failures:
        print("FAILED", failure)
    print(f"{total.passed} passed, {total.failed} failed, {total.skips.total()} skipped")
    failed = f", {total.failed} failed" if total.failed else ""
    print(f"{total.passed} passed{failed}, {describe(total.skips)}")
    return 0 if total.passed and not total.failed and as_committed else 1


if __name__ == "__main__":
    sys.exit(main())
