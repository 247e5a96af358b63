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
from sennit.cli.failure import Failure
from sennit.cli.rivals import mpi

HERE = Path(__file__).resolve().parent
_NOT_HERE = 77
_OTHERS = {"kill": {0, 1, 2}, "kill the lowest of a node": {0, 1, 3}, "kill rank 0": {1, 2, 3}}


def nodes_tool(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`tools/nodes.sh run`; skips the test where this machine cannot have nodes, or lacks UCX."""
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
    skip_without_ucx(answer.stderr)
    assert answer.returncode == 0, answer.stderr
    return answer


def skip_without_ucx(said: str) -> None:
    """Skips the test where ranks have said that there is no UCX."""
    if "there is no libucp" in said:
        pytest.skip(f"ucx: {said.splitlines()[0]}")


def scene(event: str, ranks_a_node: int = 2) -> dict[int, dict[str, Any]]:
    """What each rank reports of the event."""
    script = str(HERE / "nodes_scene.py")
    answer = nodes_tool(
        *(sys.executable, script, event),
        NODES_COUNT=str(nodes_scene.NODES),
        SCENE_RANKS_A_NODE=str(ranks_a_node),
    )
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    return {line["rank"]: line for line in lines}


def test_ranks_of_namespaces_call_and_leave() -> None:
    for report in scene("nothing").values():
        assert report["calls"] == 50, report
        assert report["destroyed_s"] < 1, report


@pytest.mark.parametrize(("nodes", "slots"), [("aaaaa", 32768), ("aaaab", 65536)])
def test_slots_are_large_where_ranks_are_on_several_nodes(nodes: str, slots: int) -> None:
    """The nodes are names here; `SENNIT_ROOT` alone does not make several."""
    words = {"SENNIT_ROOT": "127.0.0.1", "SENNIT_SIZE": str(len(nodes)), "SENNIT_DEBUG": "INFO"}
    words |= {"SENNIT_KEY": f"slots {os.getpid()} {nodes}", "SENNIT_RAILS": "lo"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", "import sennit; sennit.init().destroy()"],
            env={**os.environ, **words, "SENNIT_RANK": str(rank), "SENNIT_NODE": node},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, node in enumerate(nodes)
    ]
    said = "".join(rank.communicate(timeout=60)[1] for rank in ranks)
    assert f"4 slots of {slots} bytes a channel" in said, said


RECV_IN_VAIN = """
import time, numpy, sennit
with sennit.init(deadline_s=1) as comm:
    comm.barrier()
    if comm.rank == 0:
        try: comm.recv(numpy.zeros(1), 1)
        except sennit.DeadlineExceeded as error: print(error.blamed_ranks, error.evidence)
    time.sleep(2 * comm.rank)
"""


def test_of_a_rank_on_another_node_nothing_is_said_that_is_not_known() -> None:
    """The nodes are names here."""
    words = {"SENNIT_ROOT": "127.0.0.1", "SENNIT_SIZE": "2", "SENNIT_RAILS": "lo"}
    words["SENNIT_KEY"] = f"in vain {os.getpid()}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RECV_IN_VAIN],
            env={**os.environ, **words, "SENNIT_RANK": str(rank), "SENNIT_NODE": "ab"[rank]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    (said, errors), _ = (rank.communicate(timeout=60) for rank in ranks)
    skip_without_ucx(errors)
    assert said.startswith("(1,) whether rank 1 ("), (said, errors)
    assert "has made its call is not known here" in said
    assert "all ranks" not in said


@pytest.mark.parametrize("event", _OTHERS)
def test_a_killed_rank_is_named_in_two_seconds(event: str) -> None:
    report = scene(event)
    for rank in _OTHERS[event]:
        assert report[rank]["error"] == "RankFailed", report[rank]
        assert set(report[rank]["blamed"]) == set(range(4)) - _OTHERS[event], report[rank]
        assert report[rank]["after_s"] < 2, report[rank]


@pytest.mark.parametrize("event", ["cut a node off", "mute a node"])
def test_a_lost_node_is_named_in_three_seconds(event: str) -> None:
    report = scene(event)
    for rank in (0, 1):
        assert report[rank]["error"] == "RankFailed", report[rank]
        assert set(report[rank]["blamed"]) == {2, 3}, report[rank]
        assert "node1" in report[rank]["text"], report[rank]
    for rank in (2, 3):
        assert report[rank]["error"] == "RankFailed", report[rank]
        assert set(report[rank]["blamed"]) == {0, 1}, report[rank]
    for one in report.values():
        assert one["after_s"] < 3, one


@pytest.mark.parametrize("event", ["cut a rail", "mute a rail"])
def test_a_lost_rail_is_named_in_three_seconds_and_nobody_is_called_dead(event: str) -> None:
    report = scene(event)
    texts = [one["text"] for one in report.values()]
    assert {one["error"] for one in report.values()} == {"SystemFailure"}, texts
    witnesses = [text for text in texts if "rail/1 (rail1) from rank" in text]
    assert witnesses, texts
    assert all("may be down" in text for text in witnesses), texts
    assert all("both may live" in text for text in texts if text not in witnesses), texts
    assert max(one["after_s"] for one in report.values()) < 3, report


@pytest.mark.parametrize("event", ["cut a rail", "mute a rail"])
def test_a_lost_card_of_several_that_share_messages_is_named(event: str) -> None:
    """One rank a node uses both cards."""
    report = scene(event, ranks_a_node=1)
    assert len(report) == nodes_scene.NODES
    texts = [one["text"] for one in report.values()]
    assert {one["error"] for one in report.values()} == {"SystemFailure"}, texts
    assert any("rail/1 (rail1) from rank" in text for text in texts), texts
    assert not any("rail/0 (rail0)" in text for text in texts), texts
    assert max(one["after_s"] for one in report.values()) < 3, report


def test_a_rank_that_computes_and_reads_nothing_is_no_lost_rail() -> None:
    """Its peers send it more than its sockets hold."""
    for report in scene("compute").values():
        assert report["calls"] == 50, report


def test_a_card_that_reaches_no_other_node_is_named_while_joining() -> None:
    """Rail 1 is that of the second rank of each node; messages of others may name it."""
    report = scene("a mute rail")
    for rank, blamed in enumerate([{2, 3}, {2, 3}, {0, 1}, {0, 1}]):
        assert report[rank]["error"] == "JoinTimeout", report[rank]
        assert set(report[rank]["blamed"]) == blamed, report[rank]
        assert "over rail/1 (rail1)" in report[rank]["text"], report[rank]
        assert "rail/0" not in report[rank]["text"], report[rank]


def test_a_stopped_rank_is_named_at_the_deadline() -> None:
    report = scene("stop")
    for rank in (0, 1, 2):
        assert report[rank]["error"] == "DeadlineExceeded", report[rank]
        assert report[rank]["blamed"] == [3], report[rank]
        assert report[rank]["after_s"] < nodes_scene.DEADLINE_S + 3, report[rank]


def test_strangers_at_the_port_of_rank_0_delay_nobody() -> None:
    for report in scene("strangers").values():
        assert report["calls"] == 50, report
        assert report["joined_s"] < 5, report


def test_torchrun_on_two_nodes() -> None:
    pytest.importorskip("torch", reason="torch: PyTorch is not installed")
    torchrun = (
        f"{sys.executable} -m torch.distributed.run --nnodes 2 --nproc-per-node 2 "
        f"--node-rank $NODES_OWN --master-addr 10.99.0.1 --master-port 29511 "
        f"{HERE / 'nodes_torch_rank.py'}"
    )
    answer = nodes_tool(
        *(str(nodes_scene.NODES_TOOL), "all", "sh", "-c", torchrun),
        NODES_COUNT="2",
        SENNIT_RAILS=",".join(nodes_scene.CARDS),
        OMP_NUM_THREADS="1",
    )
    # Ranks of a node share a pipe, and their lines may meet.
    answers = sorted(re.findall(r"rank \d of 4: (?:right|wrong)", answer.stdout))
    assert answers == [f"rank {rank} of 4: right" for rank in range(4)], answer.stderr


def test_bench_joins_ranks_that_are_started_on_two_nodes() -> None:
    options = "bench all_reduce all_gather -b 1K -e 4K --iterations 5 --warmup 1 --json -"
    start = (
        f"for rank in 0 1; do SENNIT_RANK=$((2 * NODES_OWN + rank)) {sys.executable} -m sennit "
        f'{options} & pids="$pids $!"; done; for pid in $pids; do wait $pid || exit 1; done'
    )
    answer = nodes_tool(
        *(str(nodes_scene.NODES_TOOL), "all", "sh", "-c", start),
        NODES_COUNT="2",
        SENNIT_RAILS=",".join(nodes_scene.CARDS),
        SENNIT_ROOT="node0",
        SENNIT_SIZE="4",
        SENNIT_KEY="bench",
    )
    # Rank 0 alone prints.
    rows = json.loads(answer.stdout)["rows"]
    assert [(row["collective"], row["ranks"], row["bytes"], row["wrong"]) for row in rows] == [
        (collective, 4, size, 0)
        for collective in ("all_reduce", "all_gather")
        for size in (1024, 2048, 4096)
    ]


@pytest.mark.parametrize("is_named", [False, True], ids=["by the launcher", "by SENNIT_ROOT"])
@pytest.mark.parametrize("name", mpi.NAMES)
def test_bench_joins_the_ranks_of_mpirun_on_two_nodes(
    name: str, is_named: bool, tmp_path: Path
) -> None:
    try:
        (installed,) = mpi.find([name])
    except Failure as failure:
        pytest.skip(f"mpi: {failure}")
    shell = tmp_path / "rsh"
    shell.write_text(
        f'#!/bin/sh\n[ "$1" != -x ] || shift\nexec {nodes_scene.NODES_TOOL} rsh "$@"\n'
    )
    shell.chmod(0o755)
    words = {
        "openmpi": [
            *("mpirun", *installed.settings(1 << 10), "--prtemca", "plm_ssh_agent", str(shell)),
            *("--prtemca", "prte_if_include", "eth0", "--bind-to", "none"),
            *("--host", "node0:2,node1:2", "-x", "SENNIT_RAILS"),
            *(("-x", "SENNIT_ROOT=node0") if is_named else ()),
        ],
        "mpich": [
            *("mpiexec", "-launcher", "ssh", "-launcher-exec", str(shell), "-iface", "eth0"),
            *("-hosts", "node0:2,node1:2"),
            *(("-genv", "SENNIT_ROOT", "node0", "-genv", "SENNIT_KEY", "a") if is_named else ()),
        ],
    }[name]
    answer = nodes_tool(
        *(str(nodes_scene.NODES_TOOL), "exec", "0", str(installed.prefix / "bin" / words[0])),
        *(*words[1:], "-n", "4", sys.executable, "-m", "sennit"),
        *("bench", "all_reduce", "-b", "1K", "-e", "1K", "--iterations", "5", "--json", "-"),
        NODES_COUNT="2",
        SENNIT_RAILS=",".join(nodes_scene.CARDS),
    )
    (row,) = json.loads(answer.stdout)["rows"]
    assert (row["ranks"], row["bytes"], row["wrong"]) == (4, 1024, 0)
