"""Measures of the code and its pages, and the limits that [measures] of file_rules.toml sets.

Run: .venv/bin/python tools/measures.py [--call build/asan/tests/sennit_unit_tests]

With --call, gdb stops that program where a call of a GPU rank launches its kernel; counted are the
functions and files that led there from the C function.

Tests are not counted. A class is counted by the methods that have a body, by folder and name; one
that stands in a source alone, by that source. Those of [methods_of_others] have no limit.
"""

import argparse
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import lizard

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LINES = "lines of a function, 90th percentile"
METHODS = "methods of the largest class"
WORDS = "words of the pages for users"
PAGES = ("README.md", "docs/*.md")
STOPS = "functions from a C call to its launch"
FILES = "files that these are in"
CALL = "DeviceWorks.*"
LAUNCH = "sennit::FakeCuda::launch"


class Function(NamedTuple):
    """A function with a body: its scope ("Communicator", "sennit", or "") and its lines."""

    path: Path
    scope: str
    lines: int


def sources() -> Iterator[Path]:
    """The C++ of the library and its front ends."""
    for folder in ("src", "frontends"):
        for path in sorted((ROOT / folder).rglob("*.?pp")):
            if "testing" not in path.parts and not path.stem.endswith(("_test", "_fuzz")):
                yield path


def functions() -> list[Function]:
    """Every function with a body."""
    return [
        Function(path, "::".join(found.long_name.split("(")[0].split("::")[-2:-1]), found.length)
        for path in sources()
        for found in lizard.analyze_file(str(path)).function_list
    ]


def classes(bodies: list[Function]) -> Counter[str]:
    """How many methods each class has. Names that begin with a small letter are namespaces."""
    by_class = defaultdict(list)
    for body in bodies:
        if body.scope[:1].isupper():
            by_class[(body.path.parent, body.scope)].append(body.path)
    methods: Counter[str] = Counter()
    for (folder, name), paths in by_class.items():
        if any(path.suffix == ".hpp" for path in paths):
            methods[f"{folder.relative_to(ROOT)}: {name}"] = len(paths)
        else:
            for path, count in Counter(paths).items():
                methods[f"{path.relative_to(ROOT)}: {name}"] = count
    return methods


def words() -> int:
    """Of the pages that users read: docs/adding, decisions and notes are for developers."""
    return sum(len(page.read_text().split()) for glob in PAGES for page in ROOT.glob(glob))


def stops_of_a_call(program: str) -> dict[str, int]:
    """Functions that a debugger finds between a C function and the launch, and their files."""
    orders = ("set breakpoint pending on", f"break {LAUNCH}", "run", "bt", "kill")
    command = ["gdb", "-batch", *(word for order in orders for word in ("-ex", order))]
    ran = subprocess.run(
        [*command, "--args", program, f"--gtest_filter={CALL}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    files: list[str] = []
    for function, file in re.findall(r"^#\d+ +(?:0x\w+ in )?(.*) at (\S+):\d+$", ran.stdout, re.M):
        files.append(file)
        if function.startswith("sennit_"):
            return {STOPS: len(files) - 1, FILES: len(set(files[1:]))}  # without the fake
    raise SystemExit(f"gdb saw no launch in {CALL} of {program}:\n{ran.stdout[-2000:]}")


def main() -> int:
    """Print the measures; fail where one is above its limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--call", metavar="PROGRAM", help="unit tests with debugging information")
    arguments = parser.parse_args()
    file_rules = tomllib.loads((ROOT / "tools/file_rules.toml").read_text())
    rules, dictated = file_rules["measures"], file_rules["methods_of_others"]
    bodies = functions()
    by_size = classes(bodies).most_common()
    measured = {
        LINES: int(statistics.quantiles([body.lines for body in bodies], n=10)[-1]),
        METHODS: max(methods for name, methods in by_size if name not in dictated),
        WORDS: words(),
    }
    if arguments.call:
        measured |= stops_of_a_call(arguments.call)
    for what, value in measured.items():
        print(f"{value:6} {what} (at most {rules[what]})")
    print(f"{len(bodies):6} functions, {len(by_size)} classes; the largest:")
    for name, methods in by_size[:10]:
        print(f"{methods:6} {name}")
    above = [what for what, value in measured.items() if value > rules[what]]
    for what in above:
        print(f"{what}: {measured[what]} is above {rules[what]}", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
