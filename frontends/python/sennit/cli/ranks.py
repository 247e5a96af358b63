"""The ranks of a benchmark: processes of the C++ rank program, which does the timed work.

Each reads its job from a file. Rank 0 answers with one JSON object a finished row on standard
output; a rank that fails says why in a JSON object, the last line of its standard error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sennit
from sennit.cli.failure import EXIT_RANK_FAILED, EXIT_WRONG, Failure, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sennit.cli.launcher import Place

_GRACE_S = 5.0  # survivors report a dead rank within 2 s; then nothing more is to be learnt


@dataclasses.dataclass(frozen=True)
class Start:
    """A process to start: a rank, or the launcher of all ranks.

    Attributes:
        environment: All of it.
        launcher: Words of the command line before the program.
    """

    environment: Mapping[str, str]
    launcher: Sequence[str] = ()


def rank_program() -> Path:
    """The rank program, which is installed with the package."""
    program = Path(sennit.__file__).parent / "bin" / "sennit-rank"
    if not os.access(program, os.X_OK):
        raise missing(
            f"the rank program {program} is not there", "install the package anew: pip install ."
        )
    return program


class Ranks:
    """Processes of the rank program. Used as a context manager, which leaves none running."""

    def __init__(self, job: dict[str, Any], starts: Sequence[Start]) -> None:
        """Start these processes; the first one's rows are read.

        Args:
            job: "orders", a list of work orders; and the shared object of a "rival".
            starts: One a rank, or one launcher.
        """
        self._events: queue.Queue[tuple[str, int, Any]] = queue.Queue()
        self._errors: list[tuple[int, dict[str, Any]]] = []
        self._codes: dict[int, int] = {}
        self._processes: list[subprocess.Popen[str]] = []
        self._folder = tempfile.TemporaryDirectory(prefix="sennit-bench-")
        job_file = Path(self._folder.name) / "job.json"
        job_file.write_text(json.dumps(job), encoding="utf-8")
        try:
            program = str(rank_program())
            for index, start in enumerate(starts):
                self._start(index, start, [program, str(job_file)])
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError | RuntimeError):  # a process, or a thread
                raise Failure(
                    f"sennit: the system refuses to start rank {len(self._processes)} of "
                    f"{len(starts)}: {error}\nNext: take fewer --ranks, or raise the limits "
                    "(ulimit -u, ulimit -n)",
                    EXIT_RANK_FAILED,
                ) from error
            raise

    def _start(self, index: int, start: Start, program: list[str]) -> None:
        process = subprocess.Popen(
            [*start.launcher, *program],
            env=dict(start.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if index == 0 else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            pass_fds=_descriptors_of_launcher(),
        )
        self._processes.append(process)
        threading.Thread(target=self._attend, args=(index, process), daemon=True).start()

    def __enter__(self) -> Ranks:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs."""
        for process in self._processes:
            # A launcher ends its ranks when it is asked to end, and cannot when it is killed.
            process.terminate()
            process.send_signal(signal.SIGCONT)  # one that is stopped hears nothing else
        for process in self._processes:
            _wait_or_kill(process)
        self._folder.cleanup()

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as they are finished.

        Raises:
            Failure: A rank failed; the others have had time to say what they saw.
        """
        give_up_at = float("inf")
        while len(self._codes) < len(self._processes) and time.monotonic() < give_up_at:
            try:
                kind, index, value = self._events.get(timeout=0.5)
            except queue.Empty:
                continue
            if kind == "row":
                yield value
            elif kind == "error":
                self._errors.append((index, value))
            else:
                self._codes[index] = value
                if self._has_failed(index):
                    give_up_at = min(give_up_at, time.monotonic() + _GRACE_S)
        failed = [index for index in self._codes if self._has_failed(index)]
        if failed:
            raise self._failure(failed)

    def _has_failed(self, index: int) -> bool:
        """Whether a process did not come to its end: with wrong rows it does, and says nothing."""
        has_said_why = any(at == index for at, _ in self._errors)
        return self._codes[index] not in (0, EXIT_WRONG) or has_said_why

    def _failure(self, failed: list[int]) -> Failure:
        if self._errors:
            # A rank that others blame, and that says itself why it ended, knows most; whoever can
            # blame a rank knows more than one that only had to stop.
            blamed = {rank for _, one in self._errors for rank in one.get("blamed_ranks") or ()}
            index, error = max(
                self._errors,
                key=lambda item: (item[0] in blamed, bool(item[1].get("blamed_ranks"))),
            )
            # What a call of a program may do next is no advice to a person with a command line.
            message = str(error.get("message")).partition(" The communicator is now failed")[0]
            # Its own code knows more than the class of the error: here it is the options that ask
            # for what there is not.
            code = self._codes.get(index, EXIT_RANK_FAILED)
            return Failure(message, code if code > 0 else EXIT_RANK_FAILED)
        index = failed[0]
        return Failure(
            f"sennit: rank {index} of {len(self._processes)} {_how(self._codes[index])} and left "
            "no message\nNext: SENNIT_DEBUG=INFO before the command says more",
            EXIT_RANK_FAILED,
        )

    def _attend(self, index: int, process: subprocess.Popen[str]) -> None:
        """Pass on what one process says; ends when the process does."""
        if process.stderr is None:
            return
        reader = None
        if process.stdout is not None:
            reader = threading.Thread(target=self._read_rows, args=(process,), daemon=True)
            reader.start()
        with process.stderr as lines:
            for line in lines:
                error = _error_of(line)
                if error is None:
                    sys.stderr.write(line)
                else:
                    self._events.put(("error", index, error))
        if reader is not None:
            reader.join()
        self._events.put(("end", index, process.wait()))

    def _read_rows(self, process: subprocess.Popen[str]) -> None:
        if process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                row = _object_of(line)
                if row is not None:
                    self._events.put(("row", 0, row))
                else:  # of a launcher, or cut off
                    sys.stderr.write(line)


def _descriptors_of_launcher() -> tuple[int, ...]:
    """The connection to hydra (MPICH), by which ranks of several nodes find each other."""
    number = os.environ.get("PMI_FD", "")
    return (int(number),) if number.isdecimal() else ()


def _wait_or_kill(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def own_starts(ranks: int) -> list[Start]:
    """Ranks that this process starts itself."""
    key = f"bench-{secrets.token_hex(16)}"
    return [
        Start(
            {**os.environ, "SENNIT_RANK": str(rank), "SENNIT_SIZE": str(ranks), "SENNIT_KEY": key}
        )
        for rank in range(ranks)
    ]


def start_in_place(place: Place) -> list[Start]:
    """The one rank that a launcher made of this process.

    The rank program is a child of this process. Where a launcher gives no job id, the library
    distinguishes jobs by the parent process, which must then be ours: the launcher. SENNIT_KEY goes
    before that. On several nodes each has a launcher process of its own, and the library gets a key
    from rank 0.
    """
    here = os.environ.get("MPI_LOCALNRANKS", "")
    has_nodes = here.isdecimal() and int(here) < place.size and not os.environ.get("SENNIT_KEY")
    if place.launcher != "mpiexec" or has_nodes:
        return [Start(dict(os.environ))]
    launcher = os.getppid()
    # The start time, since a pid may be used again: the 20th field behind the name in parentheses.
    started = Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[19]
    own = {
        "SENNIT_RANK": str(place.rank),
        "SENNIT_SIZE": str(place.size),
        "SENNIT_KEY": os.environ.get("SENNIT_KEY")
        or f"bench under {place.launcher} {launcher}:{started}",
    }
    return [Start({**os.environ, **own})]


def _how(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _object_of(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _error_of(line: str) -> dict[str, Any] | None:
    error = (_object_of(line) or {}).get("error")
    return error if isinstance(error, dict) else None
