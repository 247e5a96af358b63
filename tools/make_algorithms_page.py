"""Writes docs/algorithms.md from the table of algorithms of the installed package.

To be run with the Python that has it: .venv/bin/python tools/make_algorithms_page.py
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/algorithms.md"

HEAD = """\
# Algorithms

This page is written by `tools/make_algorithms_page.py` from the library's own table.
`sennit algorithms` prints the same table, `sennit show COLLECTIVE --algorithm NAME --ranks N`
prints the schedule of an algorithm, and `sennit verify` proves all of them.

A call may request an algorithm by its name (`algorithm=` in Python, the option of that name in C).
Then this algorithm runs, or the call is refused with the reason. Otherwise the library chooses, for
host ranks by collective and size (`src/select/select.cpp`).

Schedules are also right in place, where a rank's output is its input, unless the page says that a
rank may have to run on a copy of its input.

Takes: the radix of a tree (2 if not given), or the division of the ranks into groups. Groups may
have any sizes and any members. By default they are the ranks in order, in floor(sqrt(n)) groups
whose sizes differ by at most one; `sennit show --groups` shows others.
"""

COLUMNS = """\
| name | what it does | takes | source |
|---|---|---|---|
"""


def table() -> list[dict[str, Any]]:
    """The rows as the library has them."""
    # Asked here, so that page() also works, and is tested, without the package.
    from sennit import _core

    rows: list[dict[str, Any]] = json.loads(_core.tool_algorithms(""))["algorithms"]
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """The page for these rows."""
    text = HEAD
    for collective, group in itertools.groupby(rows, key=lambda row: str(row["collective"])):
        text += f"\n## {collective}\n\n{COLUMNS}"
        by_copy = []
        for row in group:
            takes = ", ".join(what for what in ("radix", "groups") if row[f"takes_{what}"])
            text += f"| `{row['name']}` | {row['summary']} | {takes} | {row['source']} |\n"
            if not row["in_place"]:
                by_copy.append(f"`{row['name']}`")
        if by_copy:
            names = ", ".join(by_copy)
            text += f"\nIn place these may have to run on a copy of the input: {names}.\n"
    return text


def main() -> None:
    """Rewrites the page."""
    PAGE.write_text(page(table()), encoding="utf-8")


if __name__ == "__main__":
    main()
