"""The tables of docs/numerics.md are what the tables of types and operators say."""

from __future__ import annotations

import make_numerics_page


def test_the_committed_tables_are_current() -> None:
    page = make_numerics_page.PAGE.read_text(encoding="utf-8")
    assert page == make_numerics_page.current(page), "run: python tools/make_numerics_page.py"


def test_every_row_becomes_a_line() -> None:
    rows = make_numerics_page.rows(
        "// SENNIT_REDUCE_OP(text)\nSENNIT_REDUCE_OP(both, 7, kBoth, true, false, true, false)\n",
        "SENNIT_REDUCE_OP",
    )
    assert make_numerics_page.operators_table(rows).endswith(
        "| `both` | `SENNIT_BOTH` = 7 | x |  | x |  |\n"
    )
