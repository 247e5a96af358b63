"""What the simulator says of calls between nodes, and what bench/rails.py measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
_MACHINE = ROOT / "bench/rails.machine"
_LEAST_BYTES = 1 << 20
"""Of a rank. With less, ranks that outnumber the cores wait for each other, not for the cards."""
_TOLERANCE = 0.15
"""Below the least time and above the median: in between, it matters how ranks shared the cores."""
_STARVED = {"mpich"}
"""Jobs whose ranks run without real-time priority."""


def times_of(document: dict[str, Any]) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Least and lowest median, in microseconds, by collective, algorithm and bytes of a rank."""
    times: dict[tuple[str, str, int], tuple[float, float]] = {}
    for row in document["rows"]:
        if row["rank_bytes"] >= _LEAST_BYTES and row["rival"]["name"] not in _STARVED:
            least, median = row["time_us"]["min"], row["time_us"]["p50"]
            key = (row["collective"], row["algorithm"], row["rank_bytes"])
            known = times.get(key, (least, median))
            times[key] = (min(known[0], least), min(known[1], median))
    return times


def machine_of(document: dict[str, Any], ranks: int) -> str:
    """The nodes of a run, of one rank or two."""
    text = _MACHINE.read_text().replace("net 0.1 GB/s", f"net {document['mbit'] / 8000:g} GB/s")
    if ranks == 1:
        text = text.replace("gpu 0..1", "gpu 0").replace("link gpu0..1 cpu0..1", "link gpu0 cpu0")
    return text


@pytest.mark.parametrize("run", ["rails-2x2", "rails-4x2"])
def test_the_simulator_predicts_calls_between_nodes(
    run: str, sennit_command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    document = json.loads((ROOT / f"bench/results/current/{run}.json").read_text())
    machine = tmp_path / "rails.machine"
    ranks = document.get("ranks_a_node", document["cards"])
    machine.write_text(machine_of(document, ranks))
    paths = ["--path", "rail/0+rail/1"] if ranks < document["cards"] else []
    times = times_of(document)
    assert len(times) >= 4
    for (collective, algorithm, size), (least, median) in times.items():
        answer = sennit_command(
            *("simulate", collective, "--algorithm", algorithm, "--machine", str(machine)),
            *("--ranks", str(document["nodes"] * ranks), "--bytes", str(size)),
            *("--tile", "64K", "--json", "-", *paths),
        )
        assert answer.returncode == 0, answer.stderr
        predicted = 1e6 * json.loads(answer.stdout)["seconds"]
        what = (collective, size, predicted, least, median)
        assert (1 - _TOLERANCE) * least < predicted < (1 + _TOLERANCE) * median, what
