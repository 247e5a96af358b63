"""The program sennit-compare, which times GPU ranks beside NCCL: where it is, and running it."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sennit
from sennit.cli.failure import EXIT_MISSING, EXIT_RANK_FAILED, EXIT_USAGE, Failure, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

_PROGRAM_VARIABLE = "SENNIT_COMPARE"
_NCCL_VARIABLE = "SENNIT_NCCL_FALLBACK_LIB"
_NCCL_PACKAGE = "nvidia-nccl-cu13"
_GRACE_S = 5.0
_PREFIX = "compare: "


def find_program() -> Path:
    """The program, which is installed with a package that was built with CUDA.

    Raises:
        Failure: It is not there.
    """
    named = os.environ.get(_PROGRAM_VARIABLE)
    program = Path(named or Path(sennit.__file__).parent / "bin" / "sennit-compare")
    if os.access(program, os.X_OK):
        return program
    if named:
        raise missing(
            f"{_PROGRAM_VARIABLE}={named} is no program", "name sennit-compare, or unset it"
        )
    raise missing(
        f"--executor cuda needs a build with CUDA; {program} is not there",
        "where nvcc is, pip install . -C cmake.define.SENNIT_CUDA=ON; or use --executor host",
    )


def find_nccl() -> str:
    """NVIDIA's library: the one that a variable names, that of PyPI's package, or the system's.

    Raises:
        Failure: There is none.
    """
    named = os.environ.get(_NCCL_VARIABLE, "")
    if named not in ("", "auto", "none"):
        return named
    with contextlib.suppress(ModuleNotFoundError):  # the parent package is not there
        package = importlib.util.find_spec("nvidia.nccl")
        for folder in (package and package.submodule_search_locations) or ():
            library = Path(folder) / "lib" / "libnccl.so.2"
            if library.is_file():
                return str(library)
    found = ctypes.util.find_library("nccl")
    if found is None:
        raise missing(
            "GPU ranks are timed beside NCCL and checked against it, and it is not here",
            f"pip install {_NCCL_PACKAGE}, or name libnccl.so.2 by {_NCCL_VARIABLE}",
        )
    return found


def find_cublas() -> str | None:
    """That of PyPI's packages; none: where the loader finds it."""
    for name in ("nvidia.cu13", "nvidia.cublas"):
        with contextlib.suppress(ModuleNotFoundError):
            package = importlib.util.find_spec(name)
            for folder in (package and package.submodule_search_locations) or ():
                for library in sorted(Path(folder).glob("lib/libcublas.so.*")):
                    return str(library)
    return None


def nccl_version(library: str) -> str:
    """The version that the library itself says, such as 2.28.9.

    Raises:
        Failure: It cannot be opened.
    """
    number = ctypes.c_int()
    try:
        ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number))
    except (OSError, AttributeError) as error:
        raise missing(f"{library} is no NCCL: {error}", f"pip install {_NCCL_PACKAGE}") from error
    major, rest = divmod(number.value, 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Have signals that end this process end what it has started, too."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def measured_rows(program: Path, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What the program prints, a row as soon as it is measured.

    Raises:
        Failure: It ended badly; with what it said last.
    """
    said: list[str] = []
    # A group of its own, so that ranks that wait for each other end with the program.
    with (
        _ended_by_signals(),
        subprocess.Popen(
            [str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            start_new_session=True,
        ) as process,
    ):
        listener = threading.Thread(target=_listen, args=(process, said), daemon=True)
        listener.start()
        try:
            for line in process.stdout or ():
                if line.startswith("{"):
                    yield json.loads(line)
                else:  # of NCCL, where NCCL_DEBUG is set
                    sys.stderr.write(line)
            code = process.wait()
        finally:
            _end(process)
            listener.join()
    if code != 0:
        raise _failure(program, code, said)


def _failure(program: Path, code: int, said: list[str]) -> Failure:
    what = said[-1] if said else f"ended with code {code} and left no message"
    message = f"sennit: {program.name}: {what}"
    if code in (EXIT_USAGE, EXIT_MISSING):
        return Failure(message, code)
    remedy = "SENNIT_DEBUG=INFO NCCL_DEBUG=INFO before the command says more"
    return Failure(f"{message}\nNext: {remedy}", EXIT_RANK_FAILED)


def _listen(process: subprocess.Popen[str], said: list[str]) -> None:
    """Keep what the program says; pass on what the libraries in it do."""
    for line in process.stderr or ():
        if line.startswith(_PREFIX):
            said.append(line.removeprefix(_PREFIX).strip())
        else:
            sys.stderr.write(line)


def _end(process: subprocess.Popen[str]) -> None:
    """Leave nothing running; most often all has ended already."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=_GRACE_S)
    with contextlib.suppress(ProcessLookupError):  # of ranks that outlive the program
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
