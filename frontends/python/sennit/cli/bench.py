"""`sennit bench`: time a collective between ranks of this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sennit.cli import bench_document, launcher, names, plot
from sennit.cli.bench_options import bench_options
from sennit.cli.bench_table import BenchTable
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG, missing
from sennit.cli.output import Output, json_option
from sennit.cli.ranks import Ranks, own_environments, own_place
from sennit.cli.sizes import human, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_DEFAULT_RANKS_MAX = 8


@click.command("bench")
@bench_options
@json_option
def command(
    json_file: str | None,
    plot_file: Path | None,
    dtype: str,
    op: str,
    ranks: int | None,
    **options: Any,
) -> int:
    """Time a collective and check its results.

    COLLECTIVE is one of all_reduce (default), reduce, broadcast, all_gather, reduce_scatter,
    all_to_all, gather, scatter, barrier and send_recv: from each rank to the next, or a --pair.

    Sizes are the bytes of the total buffer, rounded up to a whole element on every rank. Under
    torchrun, mpirun or srun the ranks are those of the job, else new processes.
    """
    _refuse_what_is_missing(options)
    if plot_file is not None:
        plot.require_matplotlib()
    place = launcher.place_in_job(os.environ)
    ranks = _rank_count(ranks, place)
    if options["pair"] is not None and max(options["pair"]) >= ranks:
        raise click.UsageError(f"--pair names a rank that {ranks} ranks do not have")
    environments = own_environments(ranks) if place is None else own_place(place)
    is_reporting = place is None or place.rank == 0
    output = Output(json_file)
    rows: list[dict[str, Any]] = []
    for one_dtype in names.DTYPES if dtype == "all" else (dtype,):
        for one_op in names.REDUCE_OPS if op == "all" else (op,):
            if "all" in (dtype, op) and not names.has_operator(one_dtype, one_op):
                continue
            order = _work_order(options, ranks, one_dtype, one_op)
            rows += _measure(order, ranks, environments, output if is_reporting else None)
    if is_reporting:
        output.write_json(bench_document.document(rows))
        if plot_file is not None:
            plot.save_plot(plot_file, rows)
    return EXIT_WRONG if any(row["wrong"] for row in rows) else EXIT_DONE


def _refuse_what_is_missing(options: Mapping[str, Any]) -> None:
    if options["executor"] == "cuda":
        raise missing(
            "--executor cuda needs a build with CUDA; this one moves host memory only",
            "use --executor host",
        )
    if options["mode"] != "call":
        raise missing(
            f"--mode {options['mode']} needs a CUDA device and a build with CUDA",
            "use --mode call",
        )
    for rival in options["against"]:
        raise missing(
            f"--against {rival}: this build has no adapter for the rival {rival}",
            "leave --against out",
        )


def _rank_count(ranks: int | None, place: launcher.Place | None) -> int:
    if place is None:
        return ranks or max(2, min(_DEFAULT_RANKS_MAX, len(os.sched_getaffinity(0))))
    if ranks not in (None, place.size):
        raise click.UsageError(
            f"--ranks {ranks}, but {place.launcher} started {place.size} ranks; leave it out"
        )
    return place.size


def _work_order(options: Mapping[str, Any], ranks: int, dtype: str, op: str) -> dict[str, Any]:
    collective = options["collective"]
    # A whole element for every rank.
    quantum = names.element_bytes(dtype) * (ranks if collective in names.PER_RANK else 1)
    sizes = sweep(options["begin"], options["end"], options["factor"], quantum)
    check = options["check"] if options["check_count"] is None else options["check_count"] > 0
    passed_on = (
        "algorithm",
        "protocol",
        "tile_bytes",
        "root",
        "in_place",
        "iterations",
        "warmup",
        "seed",
        "max_seconds",
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
        "sizes": [0] if collective == "barrier" else sizes,
        "check": check and collective != "barrier",
        **{name: options[name] for name in passed_on},
    }


def _measure(
    order: dict[str, Any],
    ranks: int,
    environments: list[Mapping[str, str]],
    output: Output | None,
) -> list[dict[str, Any]]:
    """The rows of one work order; shown on `output`, which all ranks but 0 of a job lack."""
    rows = []
    with Ranks(order, environments) as running:
        if output is None:
            return list(running.rows())
        table = BenchTable(output.console)
        table.describe(order, ranks)
        with _progress(output, order) as advance:
            for row in running.rows():
                table.add(row)
                rows.append(row)
                advance()
    return rows


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
