"""docs/environment.md is what its script makes of the table of variables."""

from __future__ import annotations

import make_environment_page
import pytest


def test_the_committed_page_is_current() -> None:
    table = make_environment_page.TABLE.read_text(encoding="utf-8")
    committed = make_environment_page.PAGE.read_text(encoding="utf-8")
    assert committed == make_environment_page.page(table), (
        "run: python tools/make_environment_page.py"
    )


def test_every_row_becomes_a_line() -> None:
    page = make_environment_page.page('SENNIT_ENV(SENNIT_X, bytes, "4K", "a|b, c")\n')
    assert page.endswith("| `SENNIT_X` | bytes | `4K` | a\\|b, c |\n")


def test_a_row_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 rows, of which 0"):
        make_environment_page.page("SENNIT_ENV(SENNIT_X, bytes, 4096, What it is)\n")
