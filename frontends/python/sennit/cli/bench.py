"""`sennit bench`: time collectives between ranks of this machine."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import sennit
from sennit import schedules
from sennit.cli import bench_against, bench_document, bench_gpu, launcher, names, plot, rivals
from sennit.cli.against_table import AgainstTable, summarize
from sennit.cli.bench_options import bench_options, refuse_pair_beyond, refuse_unknown_codec
from sennit.cli.bench_table import BenchTable
from sennit.cli.failure import EXIT_DONE, EXIT_RANK_FAILED, EXIT_WRONG, Failure, missing
from sennit.cli.files import read_text
from sennit.cli.output import Output, json_option
from sennit.cli.ranks import Ranks, own_starts, start_in_place
from sennit.cli.sizes import human, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sennit.cli.ranks import Start
    from sennit.cli.rivals.rows import AloneTimes

_DEFAULT_RANKS_MAX = 8
_PROTOCOLS = ("slots", "direct")


@click.command("bench")
@bench_options
@json_option
def command(
    json_file: str | None,
    plot_file: Path | None,
    ranks: int | None,
    **options: Any,
) -> int:
    """Time collectives and check their results.

    COLLECTIVE is one of all_reduce (default), reduce, broadcast, all_gather, reduce_scatter,
    all_to_all, gather, scatter, barrier and send_recv: from each rank to the next, or a --pair.

    Sizes are the bytes of the total buffer, rounded up to a whole element on every rank. Under
    torchrun, mpirun or srun the ranks are those of the job, else new processes.

    With --executor cuda ranks are on GPUs, and NCCL is timed in the same processes, in turns; where
    there are more ranks than GPUs, copies through host memory are.

    `sennit bench ddp` trains neural networks instead.
    """
    place = launcher.place_in_job(os.environ)
    on_gpus = options["executor"] == "cuda"
    if on_gpus:
        bench_gpu.refuse_what_is_not_meant(options, place)
    else:
        _refuse_what_is_missing(options)
    if options["begin"] > options["end"]:
        raise click.UsageError(
            f"the sizes begin at {human(options['begin'])} (-b) and end at "
            f"{human(options['end'])} (-e), which is less; raise -e or lower -b"
        )
    _refuse_options_of_messages(options)
    if plot_file is not None and options["beside"]:
        raise click.UsageError("--plot draws times by size, which rows of --beside do not have")
    output = Output(json_file) if place is None or place.rank == 0 else None
    answer = _Answer(output, plot_file)
    try:
        if on_gpus and output is not None:
            answer.more = bench_gpu.measure(options, ranks, output, _progress, answer.rows)
        else:
            _measure_on_host(options, ranks, place, output, answer.rows)
    except BaseException as error:
        answer.write_what_there_is(error)
        raise
    answer.write()
    return EXIT_WRONG if any(_wrong(row) for row in answer.rows) else EXIT_DONE


def _refuse_options_of_messages(options: Mapping[str, Any]) -> None:
    """What only messages have is not ignored where no message is timed."""
    if options["schedule"] is None and "send_recv" in options["collectives"]:
        return
    for name, is_given in (
        ("pair", options["pair"] is not None),
        ("window", options["window"] > 1),
        ("bidirectional", options["bidirectional"]),
    ):
        if is_given:
            raise click.UsageError(f"--{name} is for send_recv: sennit bench send_recv --{name}")


class _Answer:
    """What is written when all is measured, and of a benchmark that ends early, too."""

    def __init__(self, output: Output | None, plot_file: Path | None) -> None:
        self.rows: list[dict[str, Any]] = []
        self.more: dict[str, Any] = {}
        self._output = output
        self._plot_file = plot_file

    def write(self) -> None:
        if self._output is None:
            return
        self._output.write_json(bench_document.document(self.rows) | self.more)
        if self._plot_file is not None and self.rows:
            plot.save_plot(self._plot_file, self.rows)

    def write_what_there_is(self, error: BaseException) -> None:
        if isinstance(error, OSError):  # the output cannot be written
            return
        message = str(error) if isinstance(error, Failure | sennit.Error) else "interrupted"
        if isinstance(error, click.ClickException):
            message = error.format_message()
        self.more["error"] = {"message": message}
        self.write()


def _refuse_what_is_missing(options: Mapping[str, Any]) -> None:
    for name in bench_gpu.ONLY_HERE:
        if options[name] not in (None, ()):
            raise click.UsageError(f"--{name.replace('_', '-')} is for --executor cuda")
    if options["protocol"] not in (None, *_PROTOCOLS):
        raise click.UsageError(f"--protocol of host ranks is {' or '.join(_PROTOCOLS)}")
    if options["codec"] is not None:
        _refuse_what_has_no_codec(options)
    if options["mode"] not in (None, "call"):
        raise missing(
            f"--mode {options['mode']} needs a CUDA device and a build with CUDA",
            "use --mode call, or --executor cuda where there is a GPU",
        )
    for rival in options["against"]:
        if rival not in rivals.MEMBERS:
            raise missing(
                f"--against {rival}: this build has no adapter for the rival {rival}",
                f"name one of {', '.join(rivals.MEMBERS)}; nccl is timed with --executor cuda",
            )


def _refuse_what_has_no_codec(options: Mapping[str, Any]) -> None:
    refuse_unknown_codec(options["codec"])
    if options["against"]:
        raise click.UsageError("--codec is not for --against: rivals have none")
    if "barrier" in options["collectives"]:
        raise click.UsageError("--codec is not for barrier, which has no values")


def _measure_on_host(
    options: Mapping[str, Any],
    ranks: int | None,
    place: launcher.Place | None,
    output: Output | None,
    done: list[dict[str, Any]],
) -> None:
    """Add the rows to `done`, each when it is there."""
    schedule = _own_schedule(options, ranks if place is None else place.size)
    ranks = _rank_count(schedule.ranks if schedule else ranks, place)
    refuse_pair_beyond(ranks, options["pair"])
    orders = list(_work_orders(options, ranks, schedule))
    if options["against"]:
        _measure_against(orders, options, place, ranks, output, done)
        return
    starts = own_starts(ranks) if place is None else start_in_place(place)
    job = {"orders": orders, "max_seconds": options["max_seconds"]}
    _warn_if_busy(output)
    _measure(job, starts, BenchTable, output, done, ranks)


def _own_schedule(options: Mapping[str, Any], ranks: int | None) -> schedules.Schedule | None:
    """The schedule that is to be timed, proved; `ranks` are those that were asked for.

    Raises:
        sennit.Error: It is none, or has no proof.
    """
    file = options["schedule"]
    if file is None:
        return None
    for name in ("collectives", "algorithm", "root"):
        if options[name] not in (None, ()):
            what = "COLLECTIVE" if name == "collectives" else f"--{name}"
            raise click.UsageError(f"{what} and --schedule: the schedule says it; leave one out")
    schedule = schedules.Schedule(read_text(file), str(file))
    if schedule.collective == "send_recv":
        raise click.UsageError("a send or recv takes no schedule")
    if ranks not in (None, schedule.ranks):
        raise click.UsageError(f"{file} is for {schedule.ranks} ranks, and there are {ranks}")
    schedule.verify()
    return schedule


def _rank_count(ranks: int | None, place: launcher.Place | None) -> int:
    if place is None:
        return ranks or max(2, min(_DEFAULT_RANKS_MAX, len(os.sched_getaffinity(0))))
    if ranks not in (None, place.size):
        raise click.UsageError(
            f"--ranks {ranks}, but {place.launcher} started {place.size} ranks; leave --ranks out"
        )
    return place.size


def _work_orders(
    options: Mapping[str, Any], ranks: int, schedule: schedules.Schedule | None
) -> Iterator[dict[str, Any]]:
    dtype, op = options["dtype"], options["op"]
    collectives = options["collectives"] or ("all_reduce",)
    of_schedule: dict[str, Any] = {}
    if schedule is not None:
        collectives = (schedule.collective,)
        of_schedule = {"root": schedule.root, "schedule": json.dumps(schedule.to_json())}
    reduces = any(collective in names.REDUCING for collective in collectives)
    if reduces and "all" not in (dtype, op) and not names.has_operator(dtype, op):
        raise click.UsageError(f"{dtype} has no operator {op} (docs/numerics.md has the table)")
    for collective in collectives:
        for one_dtype in names.DTYPES if dtype == "all" else (dtype,):
            for one_op in names.REDUCE_OPS if op == "all" else (op,):
                if "all" in (dtype, op) and not names.has_operator(one_dtype, one_op):
                    continue
                yield _work_order(options, ranks, collective, one_dtype, one_op) | of_schedule


def _work_order(
    options: Mapping[str, Any], ranks: int, collective: str, dtype: str, op: str
) -> dict[str, Any]:
    # A whole element for every rank.
    quantum = names.element_bytes(dtype) * (ranks if collective in names.PER_RANK else 1)
    sizes = sweep(options["begin"], options["end"], options["factor"], quantum)
    check = options["check"] if options["check_count"] is None else options["check_count"] > 0
    root = options["root"]
    if root is None:
        root = "rotate" if options["against"] else 0
    passed_on = (
        "algorithm",
        "protocol",
        "tile_bytes",
        "codec",
        "in_place",
        "iterations",
        "warmup",
        "seed",
        "pin",
        "pair",
        "bidirectional",
        "window",
        "cycles",
    )
    return {
        "collective": collective,
        "path": options["paths"].replace(",", "+") if options["paths"] else None,
        "dtype": dtype,
        "op": op,
        "root": root,
        "sizes": [0] if collective == "barrier" else sizes,
        "check": check and collective != "barrier",
        **{name: options[name] for name in passed_on},
    }


def _measure_against(
    orders: Sequence[dict[str, Any]],
    options: Mapping[str, Any],
    place: launcher.Place | None,
    ranks: int,
    output: Output | None,
    done: list[dict[str, Any]],
) -> None:
    """One job for each rival, then the rivals by themselves.

    If it ends early, `done` gets the rows against the rivals that have been timed, or those so far
    against the first.
    """
    if place is not None:
        raise click.UsageError(
            f"--against starts the ranks under the rival's launcher; do not use {place.launcher}"
        )
    if options["pair"] is not None or options["window"] > 1:
        raise click.UsageError("--against has no form of --pair and --window")
    if options["in_place"] and "reduce_scatter" in options["collectives"]:
        raise click.UsageError("reduce_scatter in place is another call in MPI; leave out one")
    _warn_if_busy(output)
    measured: list[bench_against.Measured] = []
    with tempfile.TemporaryDirectory(prefix="sennit-rivals-") as folder:
        found = rivals.prepare(options["against"], ranks, Path(folder))
        orders = [bench_against.comparable(order, ranks, found) for order in orders]
        for rival in found:
            if output is not None:
                output.console.print(f"against {rival.name} {rival.settings}".rstrip())
            job = {
                "orders": orders,
                "rival": str(rival.library),
                "max_seconds": options["max_seconds"],
            }
            rows: list[dict[str, Any]] = []
            alone: AloneTimes = {}
            try:
                _measure(job, rival.starts(), AgainstTable, output, rows, ranks)
                alone = rival.time_alone(orders, rows)
            except BaseException:
                if not measured:
                    measured.append(bench_against.Measured(rival.name, rival.settings, rows, alone))
                done += bench_against.merged(measured)
                raise
            measured.append(bench_against.Measured(rival.name, rival.settings, rows, alone))
    done += bench_against.merged(measured)
    if output is not None:
        summarize(output.console, done)


def _measure(
    job: dict[str, Any],
    starts: Sequence[Start],
    table_type: type[BenchTable],
    output: Output | None,
    done: list[dict[str, Any]],
    ranks: int,
) -> None:
    """Add the rows of a job; shown on `output`, which all ranks but 0 of a launcher's job lack."""
    with Ranks(job, starts) as running:
        rows = running.rows()
        if output is None:
            done.extend(rows)
            return
        wanted = 0
        for order in job["orders"]:
            table = table_type(output.console)
            table.begin(order, ranks)
            count = len(order["sizes"]) * order["cycles"]
            wanted += count
            with _progress(output, order) as advance:
                for row in itertools.islice(rows, count):
                    done.append(row)
                    table.add(row)
                    advance()
        # What goes wrong after the last row is a failure, too.
        done.extend(rows)
        if len(done) == wanted:
            return
        limit = job["max_seconds"]
        if limit is not None:
            sys.stderr.write(f"sennit: {len(done)} of {wanted} rows in {limit:g} s\n")
        elif not done:
            raise Failure("sennit: the launcher ended well but started no ranks", EXIT_RANK_FAILED)


def _warn_if_busy(output: Output | None) -> None:
    """Say that other work runs here: times of ranks that wait for a core say little."""
    busy, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if output is not None and busy > cores / 2:
        sys.stderr.write(
            f"sennit: this machine is busy (load {busy:.1f} on {cores} cores): times may be many "
            "times too long\n"
        )


def _wrong(row: dict[str, Any]) -> int:
    """Wrong elements of a row; a comparison with a rival whose results are wrong is none."""
    return sum(part.get("wrong") or 0 for part in (row, *row["rivals"]))


@contextlib.contextmanager
def _progress(output: Output, order: dict[str, Any]) -> Iterator[Callable[[], None]]:
    """A bar below the table, on a terminal only; it is drawn by this process, never by a rank."""
    if not output.console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    sizes = order["sizes"]
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=output.console,
        transient=True,
        refresh_per_second=2,
    ) as progress:
        what = f"{order['collective']} {human(sizes[0])} to {human(sizes[-1])}"
        task = progress.add_task(what, total=len(sizes) * order["cycles"])
        yield lambda: progress.advance(task)
