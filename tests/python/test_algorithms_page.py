"""docs/algorithms.md is what its script makes of the library's table."""

from __future__ import annotations

import make_algorithms_page


def test_the_committed_page_is_current() -> None:
    committed = make_algorithms_page.PAGE.read_text(encoding="utf-8")
    assert committed == make_algorithms_page.page(make_algorithms_page.table()), (
        "run: .venv/bin/python tools/make_algorithms_page.py"
    )
