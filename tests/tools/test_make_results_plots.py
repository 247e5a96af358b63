"""The pictures of measurements are drawn from committed runs, current, small, and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import make_results_plots as plots
import pytest
from make_results_table import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
MOST_BYTES = 50_000


@pytest.mark.parametrize("name", plots.PLOTS)
def test_each_is_drawn_and_committed_and_shown(name: str, tmp_path: Path) -> None:
    drawn = plots.draw(name, tmp_path).read_text(encoding="utf-8")
    assert len(drawn) < MOST_BYTES
    committed = plots.PICTURES / f"{name}.svg"
    assert committed.is_file(), "run: make plots"
    assert description(committed.read_text(encoding="utf-8")) == description(drawn), "make plots"
    assert any(f"pictures/{name}.svg" in page.read_text(encoding="utf-8") for page in PAGES)


def description(svg: str) -> str:
    """Run, commit and date; lines and text may differ by the version of matplotlib."""
    line = next(line for line in svg.splitlines() if line.startswith("<desc>"))
    assert "bench/results/current/" in line
    return line


def test_no_other_picture_is_committed() -> None:
    found = {file.name for file in plots.PICTURES.iterdir()}
    assert found == {f"{name}.svg" for name in plots.PLOTS}


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
