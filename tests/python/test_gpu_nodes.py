"""GPU ranks on several nodes: tests/python/gpu/nodes_rank.py, on fake GPUs and virtual nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_fake_gpus import LIBRARY, fake_library

HERE = Path(__file__).resolve().parent


def run_on_nodes(
    scene: str, nodes: str, library: str | None, **variables: str
) -> list[dict[str, Any]]:
    """Rank r of the node that nodes[r] names; what the ranks print, once all have ended well."""
    places: Counter[str] = Counter()
    ranks = []
    key = uuid.uuid4().hex
    for rank, node in enumerate(nodes):
        environment = {
            "SENNIT_RANK": str(rank),
            "SENNIT_SIZE": str(len(nodes)),
            "SENNIT_KEY": key,
            "SENNIT_NODE": node,
            "SENNIT_ROOT": "127.0.0.1",
            "SENNIT_RAILS": "lo",
            "SENNIT_DEBUG": "NONE",
            "UCX_MEM_EVENTS": "n",
            "RANK_NODES": json.dumps(list(nodes)),
            "RANK_DEVICE": str(places[node] % 2),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        }
        if library is not None:
            environment["LD_PRELOAD"] = library
        places[node] += 1
        ranks.append(
            subprocess.Popen(
                [sys.executable, str(HERE / "gpu/nodes_rank.py"), scene],
                env={**os.environ, **environment, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [rank.communicate(timeout=200) for rank in ranks]
    errors = "".join(error for _, error in said)
    if "there is no libucp" in errors:
        pytest.skip("ucx: there is no libucp.so.0")
    assert [rank.returncode for rank in ranks] == [0] * len(nodes), errors
    return [json.loads(line) for out, _ in said for line in out.splitlines()]


def run_on_fakes(scene: str, nodes: str, **variables: str) -> list[dict[str, Any]]:
    library = fake_library()
    if library is None:
        pytest.skip(f"fakes: no build/*/{LIBRARY}, which a build of the tests without CUDA has")
    return run_on_nodes(scene, nodes, str(library), **variables)


@pytest.mark.parametrize("nodes", ["ab", "aabb", "aab", "abab"])
def test_every_call_runs_on_several_nodes(nodes: str) -> None:
    run_on_fakes("calls", nodes)


@pytest.mark.parametrize("nodes", ["ab", "aabb", "abb"])
def test_a_death_reaches_all_nodes_and_the_rest_goes_on(nodes: str) -> None:
    reports = run_on_fakes("until failure", nodes)
    last = len(nodes) - 1
    assert [report["rank"] for report in reports] == list(range(last))
    for report in reports:
        assert report["error"] == "RankFailed", report
        assert report["blamed"] == [last], report


@pytest.mark.parametrize("nodes", ["ab", "aabb"])
def test_a_codec_applies_between_nodes_only(nodes: str) -> None:
    # From the bytes of the call on, not those of its parts.
    run_on_fakes("codecs", nodes, SENNIT_CODEC="world/all_gather>=2M=q8")


def test_what_is_refused_is_refused_on_all_nodes() -> None:
    reports = run_on_fakes("refusals", "aabb")
    assert len(reports) == 8
    assert len({report["text"] for report in reports}) == 2


@pytest.mark.parametrize("scene", ["difference", "other length"])
@pytest.mark.parametrize("nodes", ["ab", "aabb"])
def test_calls_that_differ_fail_on_all_nodes(scene: str, nodes: str) -> None:
    for report in run_on_fakes(scene, nodes):
        assert report["error"] in ("Mismatch", "Aborted"), report
        assert report["error"] == "Mismatch" or "its own error says why" in report["text"], report
