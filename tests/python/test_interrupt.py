"""Ctrl-C ends a wait."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest


def interrupt(body: str, **environment: str) -> tuple[str, float]:
    """Run a program, send it Ctrl-C when it says that it waits; its output and how long it took."""
    # A parent in the background may have left Ctrl-C ignored.
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", handler + textwrap.dedent(body)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    return output, time.monotonic() - start


@pytest.mark.parametrize(
    "call",
    [
        "comm.recv(np.zeros(4), 1, deadline_s=0)",
        "comm.start.recv(np.zeros(4), 1, deadline_s=0).wait()",
        "comm.barrier(deadline_s=0)",
    ],
)
def test_ctrl_c_ends_a_call_and_aborts_the_communicator(call: str) -> None:
    body = f"""
        import numpy as np
        import sennit

        comm = sennit.init()
        print("waiting", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", comm.failed, flush=True)
    """
    job = {"SENNIT_SIZE": "2", "SENNIT_KEY": f"ctrl-c-{os.getpid()}-{abs(hash(call))}"}
    idle_peer = subprocess.Popen(
        [sys.executable, "-c", "import sennit, time; comm = sennit.init(); time.sleep(60)"],
        env={**os.environ, **job, "SENNIT_RANK": "1"},
    )
    try:
        output, seconds = interrupt(body, SENNIT_RANK="0", **job)
    finally:
        idle_peer.kill()
        idle_peer.wait()
    assert output == "interrupted True\n"
    assert seconds < 5


def test_ctrl_c_ends_ranks_that_are_threads() -> None:
    body = """
        import numpy as np
        import sennit

        def rank(comm):
            if comm.rank == 0:
                print("waiting", flush=True)
                comm.recv(np.zeros(4), 1, deadline_s=0)
            else:
                comm.recv(np.zeros(4), 0, deadline_s=0)

        try:
            sennit.spawn(rank, 2, threads=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    output, seconds = interrupt(body)
    assert output == "interrupted\n"
    assert seconds < 5


def test_ctrl_c_ends_joining() -> None:
    body = """
        import sennit

        print("waiting", flush=True)
        try:
            sennit.init()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    key = f"ctrl-c-joining-{os.getpid()}"
    output, seconds = interrupt(body, SENNIT_RANK="0", SENNIT_SIZE="2", SENNIT_KEY=key)
    assert output == "interrupted\n"
    assert seconds < 5
