"""`sennit run`: a program of NCCL or MPI, with its collectives on Sennit."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

import sennit
from sennit import _core
from sennit.cli import launcher
from sennit.cli.call_counts import Counts, Row, Share, read_counts
from sennit.cli.call_trace import read_events, timeline
from sennit.cli.failure import Failure, missing
from sennit.cli.files import parse_output, write_text
from sennit.cli.output import Output, json_option
from sennit.cli.sizes import human
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# As shells have them.
_EXIT_NOT_EXECUTABLE = 126
_EXIT_NOT_FOUND = 127
_EXIT_BY_SIGNAL = 128

_TRACED_CALLS = "200000"  # of each process: 51 MB in TMPDIR

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_FROM_KERNEL = 0x80  # si_code of a key of the terminal, which the program got as well


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Run a program of NCCL or MPI with its collectives on Sennit.",
)
@click.option("--nccl-only", is_flag=True, help="Leave MPI alone.")
@click.option("--mpi-only", is_flag=True, help="Leave NCCL alone.")
@click.option("--quiet", is_flag=True, help="Print no table at the end.")
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=parse_output,
    metavar="FILE",
    help="Write a timeline of the calls for ui.perfetto.dev.",
)
@json_option
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- PROGRAM...")
def command(
    json_file: str | None,
    nccl_only: bool,
    mpi_only: bool,
    quiet: bool,
    trace_file: Path | None,
    program: tuple[str, ...],
) -> int:
    """Run PROGRAM with its collectives of NCCL and MPI on Sennit.

    Put it before the launcher (sennit run -- mpirun -n 4 ./program) or behind it (torchrun
    --no-python sennit run -- python train.py). At the end a table on standard error says what ran
    on Sennit and what was passed on. The exit code is the program's.
    """
    if nccl_only and mpi_only:
        raise click.UsageError("--nccl-only and --mpi-only leave nothing")
    if program[0].startswith("-"):
        raise click.UsageError(f"there is no option {program[0]}; a program comes behind --")
    output = None if json_file is None else Output(json_file)
    libraries = _libraries(with_nccl=not mpi_only, with_mpi=not nccl_only)
    with tempfile.TemporaryDirectory(prefix="sennit-run-") as folder:
        code = _run(program, _environment(libraries, folder, is_traced=trace_file is not None))
        counts = read_counts(Path(folder))
        events = read_events(Path(folder))
    place = launcher.place_in_job(os.environ)
    if trace_file is not None:
        write_text(trace_file, json.dumps(timeline(events)) + "\n")
        _say_what_the_trace_lacks(counts, len(events))
    if not quiet and (place is None or place.rank == 0):
        _print(counts, libraries, place)
    if output is not None:
        output.write_json(_document(program, libraries, counts, code))
    return code


def _libraries(*, with_nccl: bool, with_mpi: bool) -> dict[str, Path]:
    """The libraries to put in front, by what they stand in for."""
    found: dict[str, Path] = {}
    for name, wanted, library in (
        ("NCCL", with_nccl and _has_gpu_ranks(), sennit.nccl_library),
        ("MPI", with_mpi, sennit.mpi_library),
    ):
        if wanted:
            found |= _found(name, library)
    if not found:
        raise missing(
            "this installation has no library to put in front of the program: "
            + ("NCCL's needs a build with GPU ranks" if with_nccl else "MPI's was not built"),
            "`sennit doctor` says what is missing",
        )
    return found


def _has_gpu_ranks() -> bool:
    """Whether NCCL's calls would run: on GPUs, or in host memory, where that is asked for."""
    on_host = os.environ.get("SENNIT_DEVICE") == "host"
    return on_host or bool(ask(_core.tool_info)["build"]["cuda"])


def _found(name: str, library: Callable[[], Path]) -> dict[str, Path]:
    try:
        return {name: library()}
    except FileNotFoundError:
        return {}


def _environment(libraries: dict[str, Path], folder: str, *, is_traced: bool) -> dict[str, str]:
    environment = dict(os.environ)
    before = environment.get("LD_PRELOAD", "")
    names = [str(library) for library in libraries.values()]
    environment["LD_PRELOAD"] = os.pathsep.join([*names, *([before] if before else [])])
    if "NCCL" in libraries:
        # For programs that load the library by its name, or by a name of their own.
        nccl = libraries["NCCL"]
        paths = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = os.pathsep.join([str(nccl.parent), *filter(None, [paths])])
        for variable in ("VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH"):
            environment.setdefault(variable, str(nccl))
    environment["SENNIT_COUNTS_DIR"] = folder
    if is_traced:
        environment.setdefault("SENNIT_TRACE_CALLS", _TRACED_CALLS)
    return environment


def _run(program: tuple[str, ...], environment: dict[str, str]) -> int:
    """Run it to its end, passing signals on; gives what a shell would give as its exit code."""
    waited_for = {*_PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited_for)
    # Where whoever started this command ignores it, nobody would say that the program has ended.
    on_child = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        try:
            # The program gets the signals that this command blocks.
            pid = os.posix_spawnp(program[0], program, environment, setsigmask=before)
        except OSError as error:
            code = _EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else _EXIT_NOT_EXECUTABLE
            raise Failure(f"sennit: cannot run {program[0]}: {error.strerror}", code) from None
        while True:
            arrived = signal.sigwaitinfo(waited_for)
            if arrived.si_signo == signal.SIGCHLD:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended == pid:
                    break
            elif arrived.si_code != _FROM_KERNEL:
                os.kill(pid, arrived.si_signo)
    finally:
        signal.signal(signal.SIGCHLD, on_child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _EXIT_BY_SIGNAL - code


def _say_what_the_trace_lacks(counts: Counts, traced: int) -> None:
    counted = sum(row.taken.calls + row.passed_on.calls for row in counts.rows)
    if traced < counted:
        sys.stderr.write(
            f"sennit: the trace has {traced} of {counted} calls. Next: set SENNIT_TRACE_CALLS to "
            f"how many calls of a process to keep (now "
            f"{os.environ.get('SENNIT_TRACE_CALLS', _TRACED_CALLS)}).\n"
        )


def _print(counts: Counts, libraries: dict[str, Path], place: launcher.Place | None) -> None:
    names = " and ".join(libraries)
    console = Output("-").console  # standard output is the program's
    if not counts.rows:
        sys.stderr.write(
            f"sennit: no call of {names} came to Sennit: the program makes none, is linked "
            "statically, sets LD_PRELOAD itself, or has a launcher that does not pass it on to "
            "ranks (docs/run.md)\n"
        )
        return
    whose = "all processes" if place is None else f"rank {place.rank} of {place.size}"
    table = Table(title=f"calls of {whose} ({counts.processes} with {names}); s: slowest process")
    table.add_column("call")
    for column in ("on Sennit", "bytes", "s", "passed on", "s"):
        table.add_column(column, justify="right")
    table.add_column("the first, because of")
    for row in [*counts.rows, *_total(counts.rows)]:
        table.add_row(
            row.call, *_cells(row.taken, with_bytes=True), *_cells(row.passed_on), row.why
        )
    console.print(table)


def _cells(share: Share, *, with_bytes: bool = False) -> list[str]:
    if share.calls == 0:
        return [""] * (3 if with_bytes else 2)
    size = [human(share.bytes)] if with_bytes else []
    return [str(share.calls), *size, f"{share.seconds:.3f}"]


def _total(rows: list[Row]) -> list[Row]:
    if len(rows) < 2:
        return []
    total = Row("all")
    for row in rows:
        for sum_, share in ((total.taken, row.taken), (total.passed_on, row.passed_on)):
            sum_.calls += share.calls
            sum_.bytes += share.bytes
            sum_.seconds += share.seconds
    return [total]


def _document(
    program: Sequence[str], libraries: dict[str, Path], counts: Counts, code: int
) -> dict[str, Any]:
    return {
        "program": list(program),
        "exit_code": code,
        "libraries": {name: str(library) for name, library in libraries.items()},
        "processes": counts.processes,
        "calls": [row.as_json() for row in counts.rows],
    }
