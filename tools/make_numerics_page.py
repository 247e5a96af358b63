"""Writes the tables of docs/numerics.md from src/types: python tools/make_numerics_page.py."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DTYPES = ROOT / "src/types/dtypes.def"
REDUCE_OPS = ROOT / "src/types/reduce_ops.def"
PAGE = ROOT / "docs/numerics.md"

KINDS = {"kInteger": "integers", "kBool": "bool", "kFloat": "floats", "kComplex": "complex"}
MEANINGS = {
    "float32": "IEEE 754 binary32",
    "float64": "IEEE 754 binary64",
    "float16": "IEEE 754 binary16",
    "bfloat16": "the upper half of a float32",
    "float8_e4m3fn": "OCP E4M3: no infinity, one NaN, at most 448",
    "float8_e5m2": "OCP E5M2: the upper half of a float16",
    "bool": "a byte; any but zero is true",
    "complex64": "two float32",
    "complex128": "two float64",
}


def rows(text: str, macro: str) -> list[list[str]]:
    """The arguments of each row of a table."""
    found = re.findall(rf"^{macro}\((.*)\)$", text, re.MULTILINE)
    return [[argument.strip() for argument in row.split(",")] for row in found]


def types_table(dtypes: list[list[str]]) -> str:
    """A line a type."""
    lines = ["| type | value in C | kind | is |", "|---|---|---|---|"]
    for name, value, _, _, kind in dtypes:
        meaning = MEANINGS.get(name, "two's complement" if name.startswith("int") else "unsigned")
        lines.append(
            f"| `{name}` | `SENNIT_{name.upper()}` = {value} | {KINDS[kind]} | {meaning} |"
        )
    return "\n".join(lines) + "\n"


def operators_table(operators: list[list[str]]) -> str:
    """A line an operator, a column a kind of types."""
    lines = [
        "| operator | value in C | " + " | ".join(KINDS.values()) + " |",
        "|---|---|" + "---|" * len(KINDS),
    ]
    for name, value, _, *exists in operators:
        constant = (
            "made with a scalar" if name == "premul_sum" else f"`SENNIT_{name.upper()}` = {value}"
        )
        marks = ["x" if pair == "true" else "" for pair in exists]
        lines.append(f"| `{name}` | {constant} | " + " | ".join(marks) + " |")
    return "\n".join(lines) + "\n"


def replaced(page: str, name: str, table: str) -> str:
    """The page with another table between the marks of this name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = page.split(begin)
    return before + begin + table + end + rest.split(end)[1]


def current(page: str) -> str:
    """The page with the tables that the sources have now."""
    dtypes = rows(DTYPES.read_text(encoding="utf-8"), "SENNIT_DTYPE")
    operators = rows(REDUCE_OPS.read_text(encoding="utf-8"), "SENNIT_REDUCE_OP")
    return replaced(
        replaced(page, "types", types_table(dtypes)), "operators", operators_table(operators)
    )


def main() -> None:
    """Rewrites the tables."""
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
