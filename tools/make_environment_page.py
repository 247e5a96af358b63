"""Writes docs/environment.md from src/base/env.def: python tools/make_environment_page.py."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/base/env.def"
PAGE = ROOT / "docs/environment.md"

ROW = re.compile(r'^SENNIT_ENV\((\w+), (\w+), "([^"]*)", "([^"]*)"\)$', re.MULTILINE)

HEAD = """\
# Environment variables

`tools/make_environment_page.py` writes this page from `src/base/env.def`. `sennit info` prints the
table with the values of your shell.

A variable is read when it is needed; an empty value counts as not set. The library warns once of a
`SENNIT_*` variable that is not in this table. Fields of `sennit_config_t` (C), arguments of `init`
and fields of `Config` (Python) take precedence over the environment.

Types: text; integer; bytes (an integer, also with K, M or G, powers of 1024); seconds (a decimal
number). These must be the same on all ranks, or the ranks do not join and say which values differ:
`SENNIT_DEVICE` (host or cuda, not the number), `SENNIT_DEVICE_BLOCKS`, `SENNIT_DEVICE_GROUP`,
`SENNIT_MACHINE`, `SENNIT_COPY_ENGINES`, `SENNIT_HOST_SHARE`, `SENNIT_HOST_RING_BYTES`,
`SENNIT_HOST_SLOT_BYTES`, `SENNIT_PATHS`, `SENNIT_PATH_POLICY`, `SENNIT_CODEC`, the contents of
`SENNIT_TUNING_TABLE` and `SENNIT_GPU_PROFILE`, `SENNIT_SLOT_BYTES`, `SENNIT_SLOTS`, `SENNIT_PORTS`
and `SENNIT_REPRODUCIBLE`.

| variable | type | default | meaning |
|---|---|---|---|
"""


def rows(table: str) -> list[tuple[str, str, str, str]]:
    """Name, type, default and text of each row of env.def."""
    found = [(name, kind, default, text) for name, kind, default, text in ROW.findall(table)]
    declared = len(re.findall(r"^SENNIT_ENV\(", table, re.MULTILINE))
    if len(found) != declared:
        raise ValueError(f"{TABLE} has {declared} rows, of which {len(found)} could be read")
    return found


def cell(text: str) -> str:
    """Text that does not end its cell of a Markdown table."""
    return text.replace("|", r"\|")


def page(table: str) -> str:
    """The page for the text of env.def."""
    lines = [
        f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {cell(text)} |\n"
        for name, kind, default, text in rows(table)
    ]
    return HEAD + "".join(lines)


def main() -> None:
    """Rewrites the page."""
    PAGE.write_text(page(TABLE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
