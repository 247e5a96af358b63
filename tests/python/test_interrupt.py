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
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(body)],
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
    ],
)
def test_ctrl_c_ends_a_call_and_aborts_the_communicator(call: str) -> None:
    body = f"""
        import os, sys, threading
        import numpy as np
        import sennit
        from sennit import spawning

        ready = threading.Barrier(2)

        def peer():
            with spawning._join(1, 2, "ctrl-c-{{}}".format(os.getpid())):
                ready.wait()
                leave.wait()

        leave = threading.Event()
        threading.Thread(target=peer, daemon=True).start()
        comm = spawning._join(0, 2, "ctrl-c-{{}}".format(os.getpid()))
        ready.wait()
        print("waiting", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", comm.failed, flush=True)
        leave.set()
    """
    output, seconds = interrupt(body)
    assert output == "interrupted True\n"
    assert seconds < 5


def test_ctrl_c_ends_joining() -> None:
    body = """
        import os
        import sennit

        print("waiting", flush=True)
        try:
            sennit.init()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            os._exit(0)
    """
    key = f"ctrl-c-joining-{os.getpid()}"
    output, seconds = interrupt(body, SENNIT_RANK="0", SENNIT_SIZE="2", SENNIT_KEY=key)
    assert output == "interrupted\n"
    assert seconds < 5
