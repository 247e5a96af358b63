"""Ranks on two nodes, something that happens to them, and what they report.

    tools/nodes.sh run python tests/python/nodes_scene.py EVENT

Run by test_nodes.py, in the namespaces of tools/nodes.sh. Prints one line of JSON for each rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import sennit

NODES_TOOL = Path(__file__).resolve().parents[2] / "tools/nodes.sh"
NODES = 2
RANKS_A_NODE = int(os.environ.get("SCENE_RANKS_A_NODE", "2"))
RANKS = NODES * RANKS_A_NODE
CARDS = ("rail0", "rail1")
DEADLINE_S = 6.0
PORTS = "23456-23456"
_CALLS_BEFORE = 10
_LONGEST_S = 40.0


def report_of(error: sennit.Error) -> dict[str, Any]:
    """What an error says, and when."""
    blamed = list(error.blamed_ranks)
    return {
        "error": type(error).__name__,
        "blamed": blamed,
        "text": str(error),
        "at": time.monotonic(),
    }


def be_a_rank() -> None:
    """Join, call until a call fails, and report it."""
    import numpy as np
    import sennit

    time.sleep(float(os.environ["SCENE_DELAY_S"]))
    began = time.monotonic()
    report: dict[str, Any] = {"rank": int(os.environ["SENNIT_RANK"]), "pid": os.getpid()}
    calls = int(os.environ["SCENE_CALLS"])
    try:
        comm = sennit.init(timeout_s=float(os.environ["SCENE_TIMEOUT_S"]), deadline_s=DEADLINE_S)
    except sennit.Error as error:
        print(json.dumps(report | report_of(error)), flush=True)
        return
    report["joined_s"] = time.monotonic() - began
    data = np.ones(1 << 18, dtype=np.float32)
    try:
        done = 0
        while calls == 0 or done < calls:
            if done == _CALLS_BEFORE:
                print(json.dumps(report), flush=True)
                time.sleep(float(os.environ["SCENE_PAUSE_S"]))
            total = comm.all_reduce(data)
            assert (total == RANKS).all()
            done += 1
        report["calls"] = done
    except sennit.Error as error:
        report |= report_of(error)
    print(json.dumps(report), flush=True)
    # A communicator that failed is closed without its peers.
    began = time.monotonic()
    with contextlib.suppress(sennit.Error):
        comm.destroy()
    print(json.dumps({"rank": report["rank"], "destroyed_s": time.monotonic() - began}), flush=True)


def nodes_tool(*arguments: object) -> None:
    """One command of tools/nodes.sh."""
    subprocess.run([NODES_TOOL, *map(str, arguments)], check=True)


def of_all_cards(command: str) -> None:
    """To node 1, as if its cables were out, or its switch were off."""
    for card in ("eth0", *CARDS):
        nodes_tool(command, 1, card)


EVENTS: dict[str, Callable[[dict[int, int]], Any]] = {
    "nothing": lambda _: None,
    "kill": lambda pids: os.kill(pids[3], signal.SIGKILL),
    "kill the lowest of a node": lambda pids: os.kill(pids[2], signal.SIGKILL),
    "kill rank 0": lambda pids: os.kill(pids[0], signal.SIGKILL),
    "stop": lambda pids: os.kill(pids[3], signal.SIGSTOP),
    "cut a node off": lambda _: of_all_cards("cut"),
    "mute a node": lambda _: of_all_cards("mute"),
    "cut a rail": lambda _: nodes_tool("cut", 1, "rail1"),
    "mute a rail": lambda _: nodes_tool("mute", 1, "rail1"),
    "compute": lambda _: None,  # of rank 3, between two calls
    "strangers": lambda _: None,
    "a mute rail": lambda _: None,  # from the beginning
}


def be_strangers() -> None:
    """In node 1: connections to rank 0 that say nothing, or noise, until killed."""
    host = "10.99.0.1"
    open_ones = []
    while True:
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096)):
            with contextlib.suppress(OSError):
                one = socket.create_connection((host, int(PORTS.split("-")[0])), timeout=1)
                one.sendall(noise)
                open_ones.append(one)
        del open_ones[:-100]
        time.sleep(0.01)


def start(node: int, *words: str, **environment: str) -> subprocess.Popen[str]:
    """This program in a node."""
    return subprocess.Popen(
        [str(NODES_TOOL), "exec", str(node), sys.executable, __file__, *words],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


class Ranks:
    """The ranks of a scene, and what they print."""

    def __init__(
        self, calls: int, delay_s: float = 0, timeout_s: float = 20, pause_s: float = 0
    ) -> None:
        """Start all of them, the last one later; `calls` 0: until one fails.

        The last one pauses between two calls.
        """
        self.reports: dict[int, dict[str, Any]] = {rank: {"rank": rank} for rank in range(RANKS)}
        self._ready = {rank: threading.Event() for rank in range(RANKS)}
        self.processes = [
            self._start(
                rank,
                SCENE_CALLS=str(calls),
                SCENE_DELAY_S=str(delay_s if rank + 1 == RANKS else 0),
                SCENE_TIMEOUT_S=str(timeout_s),
                SCENE_PAUSE_S=str(pause_s if rank + 1 == RANKS else 0),
            )
            for rank in range(RANKS)
        ]
        self._threads = [
            threading.Thread(target=self._listen, args=(rank,), daemon=True)
            for rank in range(RANKS)
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _start(rank: int, **scene: str) -> subprocess.Popen[str]:
        return start(
            rank // RANKS_A_NODE,
            "be",
            "rank",
            SENNIT_RANK=str(rank),
            SENNIT_SIZE=str(RANKS),
            SENNIT_KEY="scene",
            SENNIT_ROOT="node0",
            SENNIT_RAILS=",".join(CARDS),
            SENNIT_PORT_RANGE=PORTS,
            **scene,
        )

    def _listen(self, rank: int) -> None:
        out = self.processes[rank].stdout
        assert out is not None
        for line in out:
            self.reports[rank] |= json.loads(line)
            self._ready[rank].set()
        self._ready[rank].set()

    def await_all(self) -> dict[int, int]:
        """Process numbers by rank, once all are in their calls."""
        end = time.monotonic() + _LONGEST_S
        for event in self._ready.values():
            event.wait(max(0.0, end - time.monotonic()))
        return {rank: report["pid"] for rank, report in self.reports.items() if "pid" in report}

    def await_ends(self) -> None:
        """Wait until those that can end have done so, and kill the rest."""
        end = time.monotonic() + _LONGEST_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        for process in self.processes:
            process.kill()


def play(event: str) -> None:
    """The scene."""
    strangers = start(1, "be", "strangers") if event == "strangers" else None
    if event == "a mute rail":
        nodes_tool("mute", 1, "rail1")
    # Strangers have a second in which the others wait for the last rank.
    ranks = Ranks(
        calls=50 if event in {"nothing", "strangers", "compute"} else 0,
        delay_s=0 if strangers is None else 1,
        timeout_s=6 if event == "a mute rail" else 20,
        pause_s=DEADLINE_S - 2 if event == "compute" else 0,
    )
    pids = ranks.await_all()
    time.sleep(0.2)
    if len(pids) == RANKS:  # else their reports say why
        EVENTS[event](pids)
    happened = time.monotonic()  # a node is lost with its last cable
    if event == "stop":
        # It would wait for ever.
        threading.Timer(2 * DEADLINE_S, os.kill, (pids[3], signal.SIGKILL)).start()
    ranks.await_ends()
    if strangers is not None:
        strangers.kill()
    for report in ranks.reports.values():
        if "at" in report:
            report["after_s"] = report["at"] - happened
        print(json.dumps(report), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["be", "rank"]:
            be_a_rank()
        case ["be", "strangers"]:
            be_strangers()
        case [name]:
            play(name)
