"""How sennit-compare and NCCL are found, and what becomes of its ranks when it ends."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sennit
from sennit.cli import compare_program
from sennit.cli.failure import Failure

# A program with ranks that wait for ever.
STUCK = """#!/bin/sh
sleep 600 &
echo $! > "$(dirname "$0")/rank"
echo '{"bytes": 8}'
wait
"""
PRINT_ROWS = """
import sys
from pathlib import Path
from sennit.cli import compare_program

for row in compare_program.measured_rows(Path(sys.argv[1]), []):
    print(row, flush=True)
"""


def write_program(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def test_ranks_that_wait_for_ever_end_with_the_benchmark(tmp_path: Path) -> None:
    rows = compare_program.measured_rows(write_program(tmp_path / "stuck", STUCK), [])
    assert next(rows) == {"bytes": 8}
    rank = int((tmp_path / "rank").read_text())
    os.kill(rank, 0)
    rows.close()  # type: ignore[attr-defined]
    await_end(rank)


def test_a_signal_that_ends_the_benchmark_ends_its_ranks(tmp_path: Path) -> None:
    stuck = write_program(tmp_path / "stuck", STUCK)
    command = [sys.executable, "-c", PRINT_ROWS, str(stuck)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=20) == 128 + signal.SIGTERM
    await_end(int((tmp_path / "rank").read_text()))


def await_end(pid: int) -> None:
    until = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """A zombie has ended; whoever adopted it may take its time."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_program_lies_beside_that_of_host_ranks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "sennit" / "__init__.py"
    monkeypatch.setattr(sennit, "__file__", str(package))
    with pytest.raises(Failure, match=r"needs a build with CUDA; .*/bin/sennit-compare") as failure:
        compare_program.find_program()
    assert failure.value.exit_code == 4
    (package.parent / "bin").mkdir(parents=True)
    file = write_program(package.parent / "bin" / "sennit-compare", "#!/bin/sh\n")
    assert compare_program.find_program() == file


def test_nccl_is_the_one_that_is_named_or_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SENNIT_NCCL_FALLBACK_LIB", "/some/libnccl.so.2")
    assert compare_program.find_nccl() == "/some/libnccl.so.2"
    monkeypatch.setenv("SENNIT_NCCL_FALLBACK_LIB", "none")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(ctypes.util, "find_library", lambda _: None)
    with pytest.raises(Failure, match="pip install nvidia-nccl") as failure:
        compare_program.find_nccl()
    assert failure.value.exit_code == 4
    library = tmp_path / "lib" / "libnccl.so.2"
    library.parent.mkdir()
    library.touch()
    spec = importlib.machinery.ModuleSpec("nvidia.nccl", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    assert compare_program.find_nccl() == str(library)


def test_what_is_no_nccl_is_told(tmp_path: Path) -> None:
    file = tmp_path / "libnccl.so.2"
    file.write_text("no library")
    with pytest.raises(Failure, match="is no NCCL") as failure:
        compare_program.nccl_version(str(file))
    assert failure.value.exit_code == 4
