"""`sennit run`: what is in front is used and counted, and the program notices nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sennit
from sennit.cli.call_counts import read_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

# A program that knows NCCL alone: two ranks as threads, four collectives and a message each.
NCCL_PROGRAM = """
import ctypes, threading
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
identity = Id()
assert nccl.ncclGetUniqueId(ctypes.byref(identity)) == 0
def rank(number):
    comm = ctypes.c_void_p()
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, identity, number) == 0
    x, y = (ctypes.c_float * 8)(*[1] * 8), (ctypes.c_float * 8)()
    count = ctypes.c_size_t(8)
    for _ in range(3):
        assert nccl.ncclAllReduce(x, y, count, 7, 0, comm, None) == 0
    assert list(y) == [2.0] * 8
    assert nccl.ncclBroadcast(x, y, count, 7, 0, comm, None) == 0
    assert nccl.ncclGroupStart() == 0
    assert nccl.ncclSend(x, count, 7, 1 - number, comm, None) == 0
    assert nccl.ncclRecv(y, count, 7, 1 - number, comm, None) == 0
    assert nccl.ncclGroupEnd() == 0
    assert nccl.ncclCommDestroy(comm) == 0
ranks = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
for one in ranks:
    one.start()
for one in ranks:
    one.join()
print("done")
"""


@pytest.fixture
def run(sennit_command: Command, tmp_path: Path) -> Callable[..., tuple[Any, Any]]:
    """Runs a Python program of NCCL, in host memory; the finished process, and the counts."""

    def start(program: str, *options: str, **environment: str) -> tuple[Any, Any]:
        file = tmp_path / "counts.json"
        done = sennit_command(
            *("run", "--json", str(file), *options, "--", sys.executable, "-c", program),
            SENNIT_DEVICE="host",
            **environment,
        )
        return done, json.loads(file.read_text()) if file.exists() else None

    return start


def test_calls_of_nccl_run_on_sennit_and_are_counted(run: Callable[..., tuple[Any, Any]]) -> None:
    done, counts = run(NCCL_PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    calls = {row["call"]: row for row in counts["calls"]}
    assert {name: row["taken"]["calls"] for name, row in calls.items()} == {
        "ncclAllReduce": 6,
        "ncclBroadcast": 2,
        "ncclGroupEnd": 2,
        "ncclRecv": 2,
        "ncclSend": 2,
    }
    assert calls["ncclAllReduce"]["taken"]["bytes"] == 6 * 32
    assert calls["ncclAllReduce"]["taken"]["seconds"] > 0
    assert not any(row["passed_on"]["calls"] for row in counts["calls"])
    assert counts["processes"] == 1
    assert "ncclAllReduce" in done.stderr
    assert not list(Path(counts["libraries"]["NCCL"]).parent.glob("counts-*"))


def test_without_calls_it_says_so(run: Callable[..., tuple[Any, Any]]) -> None:
    done, counts = run("print('nothing')", "--nccl-only")
    assert (done.returncode, done.stdout) == (0, "nothing\n")
    assert done.stderr.startswith("sennit: no call of NCCL came to Sennit: ")
    assert counts["calls"] == []
    assert list(counts["libraries"]) == ["NCCL"]


def test_quiet_is_quiet(run: Callable[..., tuple[Any, Any]]) -> None:
    done, _ = run(NCCL_PROGRAM, "--quiet")
    assert done.stderr == ""


def test_what_was_preloaded_stays_preloaded(run: Callable[..., tuple[Any, Any]]) -> None:
    other = str(next(sennit.nccl_library().parents[1].glob("libsennit.so.*")))
    done, _ = run("import os; print(os.environ['LD_PRELOAD'])", LD_PRELOAD=other)
    libraries = done.stdout.strip().split(os.pathsep)
    assert libraries[0] == str(sennit.nccl_library())
    assert libraries[-1] == other


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_the_exit_code_is_the_programs(
    run: Callable[..., tuple[Any, Any]], program: str, code: int
) -> None:
    done, counts = run(program)
    assert done.returncode == code
    assert counts["exit_code"] == code


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "/no/such/program"], 127, "cannot run /no/such/program"),
        (["--", "/etc/passwd"], 126, "cannot run /etc/passwd"),
        ([], 2, "Missing argument"),
        (["--nccl-only", "--mpi-only", "--", "true"], 2, "leave nothing"),
        (["--nccl-only", "--", "true"], 4, "has no library to put in front"),
    ],
)
def test_what_cannot_be_run_is_named(
    sennit_command: Command, words: list[str], code: int, said: str
) -> None:
    if code == 4 and _is_built_for_gpus():
        pytest.skip("cpu: this build has GPU ranks")
    done = sennit_command("run", *words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def _is_built_for_gpus() -> bool:
    from sennit import _core

    return bool(json.loads(_core.tool_info("{}"))["build"]["cuda"])


def test_signals_are_passed_on_and_nothing_is_left(tmp_path: Path) -> None:
    program = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "for _ in range(600):\n"  # a signal right before a long sleep would not end it
        "    time.sleep(0.1)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sennit", "run", "--", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "SENNIT_DEVICE": "host"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 5, errors
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_counted_is_kept(
    run: Callable[..., tuple[Any, Any]],
) -> None:
    program = NCCL_PROGRAM + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done, counts = run(program)
    assert done.returncode == 128 + signal.SIGKILL
    assert {row["call"] for row in counts["calls"]} >= {"ncclAllReduce", "ncclSend"}


def test_processes_of_the_program_are_added_up(run: Callable[..., tuple[Any, Any]]) -> None:
    program = f"""
import subprocess, sys
for _ in range(2):
    subprocess.run([sys.executable, "-c", {NCCL_PROGRAM!r}], check=True)
"""
    done, counts = run(program)
    assert done.returncode == 0, done.stderr
    assert counts["processes"] == 2
    calls = {row["call"]: row["taken"]["calls"] for row in counts["calls"]}
    assert calls["ncclAllReduce"] == 12


def test_under_a_launcher_rank_0_alone_prints(sennit_command: Command) -> None:
    words = ("run", "--", sys.executable, "-c", NCCL_PROGRAM)
    job = {"SENNIT_DEVICE": "host", "WORLD_SIZE": "2", "MASTER_ADDR": "x", "MASTER_PORT": "1"}
    assert "calls of rank 0 of 2" in sennit_command(*words, RANK="0", **job).stderr
    assert sennit_command(*words, RANK="1", **job).stderr == ""


def test_files_that_are_no_counts_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "counts-1").write_bytes(b"")
    (tmp_path / "counts-2").write_bytes(b"x" * 5000)
    counts = read_counts(tmp_path)
    assert (counts.processes, counts.rows) == (0, [])
