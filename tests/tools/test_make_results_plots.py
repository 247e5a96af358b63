"""The pictures of measurements are drawn from what the index names, and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import make_results_plots as plots
import pytest
from make_results_table import RESULTS

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [
    RESULTS.parents[1] / "docs" / name for name in ("performance.md", "multipath.md", "gpu.md")
]


@pytest.mark.parametrize("what", plots.PLOTS)
def test_each_is_drawn_and_committed_and_shown(what: str, tmp_path: Path) -> None:
    file = tmp_path / "drawn.png"
    plots.PLOTS[what](what, file)
    assert file.read_bytes().startswith(b"\x89PNG")
    assert (RESULTS / f"{what}.png").is_file(), "run: python tools/make_results_plots.py"
    assert any(f"{what}.png" in page.read_text(encoding="utf-8") for page in PAGES)


def row(**engines: float) -> dict[str, Any]:
    named = {name.replace("_", " "): {"p50": time} for name, time in engines.items()}
    return {"time_us": {"p50": 90.0}, "engines": named}


def test_times_by_share_begin_with_the_best_way_without() -> None:
    copies = row(sennit_put=95.0, sennit_share_0=100.0, sennit_share_12=110.0, sennit_share_4=80.0)
    assert list(plots.times_by_share(copies).items()) == [(0, 90.0), (4, 80.0), (12, 110.0)]
    # Its own choice between two is not held to the budget, and may be a share.
    few = row(sennit_put=200.0, sennit_sm_share_50=120.0) | {"pair": [0, 1], "sm_budget": 1}
    assert plots.times_by_share(few) == {0: 200.0, 50: 120.0}


def test_a_row_without_shares_has_no_times_by_share() -> None:
    assert plots.times_by_share(row(sennit_put=95.0, sennit_ll128=99.0)) == {}


def test_panels_are_told_apart() -> None:
    pair = {"collective": "send_recv", "ranks": 2}
    assert plots.title_of(pair) == "send_recv, 2 GPUs"
    assert plots.title_of(pair | {"bidirectional": True, "sm_budget": 2}) == (
        "send_recv, 2 GPUs, both ways, 2 thread blocks"
    )
