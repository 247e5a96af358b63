"""What ranks on several nodes promise when something happens; the nodes are namespaces."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodes_scene
import pytest

HERE = Path(__file__).resolve().parent
_NOT_HERE = 77
_TELLS_OF_SILENCE = (1, 22)
"""Older versions of UCX leave a card that nobody answers to the deadline of a call."""
_OTHERS = {"kill": {0, 1, 2}, "kill the lowest of a node": {0, 1, 3}, "kill rank 0": {1, 2, 3}}


def nodes_tool(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tools/nodes.sh run`; skips the test where this machine cannot have nodes."""
    answer = subprocess.run(
        [str(nodes_scene.NODES_TOOL), "run", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if answer.returncode == _NOT_HERE:
        pytest.skip(f"namespaces: {answer.stderr.strip()}")
    assert answer.returncode == 0, answer.stderr
    return answer


def play(event: str) -> tuple[dict[int, dict[str, Any]], tuple[int, ...]]:
    """What each rank told of the event, and the version of UCX."""
    script = str(HERE / "nodes_scene.py")
    answer = nodes_tool(
        sys.executable, script, event, NODES_COUNT=str(nodes_scene.NODES), SENNIT_DEBUG="INFO"
    )
    if "no path joins them" in answer.stderr:
        pytest.skip(f"ucx: {answer.stderr.splitlines()[0]}")
    version = re.search(r"by UCX (\d+)\.(\d+)", answer.stderr)
    assert version, answer.stderr
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    return {line["rank"]: line for line in lines}, tuple(map(int, version.groups()))


def scene(event: str) -> dict[int, dict[str, Any]]:
    """What each rank told of the event."""
    return play(event)[0]


def test_ranks_of_namespaces_call_and_leave() -> None:
    for told in scene("nothing").values():
        assert told["calls"] == 50, told
        assert told["destroyed_s"] < 1, told


@pytest.mark.parametrize("event", _OTHERS)
def test_a_killed_rank_is_named_in_two_seconds(event: str) -> None:
    told = scene(event)
    for rank in _OTHERS[event]:
        assert told[rank]["error"] == "RankFailed", told[rank]
        assert set(told[rank]["blamed"]) == set(range(4)) - _OTHERS[event], told[rank]
        assert told[rank]["after_s"] < 2, told[rank]


@pytest.mark.parametrize("event", ["cut a node off", "mute a node"])
def test_a_lost_node_is_named_in_three_seconds(event: str) -> None:
    told = scene(event)
    for rank in (0, 1):
        assert told[rank]["error"] == "RankFailed", told[rank]
        assert set(told[rank]["blamed"]) == {2, 3}, told[rank]
        assert "node1" in told[rank]["text"], told[rank]
    for rank in (2, 3):
        assert told[rank]["error"] == "RankFailed", told[rank]
        assert set(told[rank]["blamed"]) == {0, 1}, told[rank]
    for one in told.values():
        assert one["after_s"] < 3, one


@pytest.mark.parametrize("event", ["cut a rail", "mute a rail"])
def test_a_lost_rail_is_named_and_nobody_is_called_dead(event: str) -> None:
    told, version = play(event)
    for one in told.values():
        assert "rail" in one["text"], one
        assert "may" in one["text"], one
        if version >= _TELLS_OF_SILENCE:
            assert one["error"] == "SystemFailure", one
            assert one["after_s"] < 3, one
        else:
            assert one["error"] == "DeadlineExceeded", one
            assert one["after_s"] < nodes_scene.DEADLINE_S + 3, one


def test_a_stopped_rank_is_named_at_the_deadline() -> None:
    told = scene("stop")
    for rank in (0, 1, 2):
        assert told[rank]["error"] == "DeadlineExceeded", told[rank]
        assert told[rank]["blamed"] == [3], told[rank]
        assert told[rank]["after_s"] < nodes_scene.DEADLINE_S + 3, told[rank]


def test_strangers_at_the_port_of_rank_0_delay_nobody() -> None:
    for told in scene("strangers").values():
        assert told["calls"] == 50, told
        assert told["joined_s"] < 5, told
