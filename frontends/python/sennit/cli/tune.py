"""`sennit tune`: measure on this machine what ranks should choose, and write it down."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sennit import _core
from sennit.cli import tune_gpu, tune_work
from sennit.cli.bench_document import document
from sennit.cli.failure import EXIT_DONE, Failure
from sennit.cli.files import check_writable, parse_output, read_text, write_text
from sennit.cli.names import COLLECTIVE, COLLECTIVES
from sennit.cli.output import Output, json_option
from sennit.cli.sizes import human
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from rich.console import Console

_DEFAULT_RANKS = (2, 4, 8)


def _parse_ranks(ctx: click.Context, param: click.Parameter, value: str | None) -> list[int] | None:
    if value is None:
        return None
    words = value.split(",")
    if not all(word.isdigit() and int(word) > 1 for word in words):
        raise click.BadParameter(f"{value!r} is no list such as 2,4,8", ctx, param)
    return [int(word) for word in words]


@click.command("tune")
@click.argument("collectives", nargs=-1, type=COLLECTIVE, metavar="[COLLECTIVE]...")
@click.option(
    "--executor",
    type=click.Choice(("host", "cuda")),
    default="host",
    show_default=True,
    help="Whose table: of host ranks, or a profile of these GPUs.",
)
@click.option(
    "--ranks",
    callback=_parse_ranks,
    metavar="N,...",
    help="Numbers of ranks to measure; default: 2,4,8, and all GPUs with --executor cuda.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_output,
    metavar="FILE",
    help="Write it here; default: sennit.tuning, and sennit.profile with --executor cuda.",
)
@click.option(
    "--check",
    "checked",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Write nothing: measure anew, five times in turn, and judge this table by it.",
)
@click.option(
    "--rows",
    "result_files",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    multiple=True,
    metavar="FILE",
    help="With --executor cuda: measure nothing, take the rows of this result file.",
)
@json_option
def command(
    json_file: str | None,
    collectives: tuple[str, ...],
    executor: str,
    ranks: list[int] | None,
    out: Path | None,
    checked: Path | None,
    result_files: tuple[Path, ...],
) -> int:
    """Measure every algorithm, protocol and tile of COLLECTIVEs (default: all) on this machine.

    Takes a minute or two with nothing else running. The environment variable SENNIT_TUNING_TABLE
    names the file to the ranks of later programs; a table of another machine is refused there.
    After Ctrl-C the file has the times so far; one that was there stays, and FILE.partial has them.

    With --executor cuda it measures the ways of GPU ranks beside each other, and writes the profile
    of this model of GPUs, which SENNIT_GPU_PROFILE names: from which size on each way is taken.
    With more ranks than GPUs it measures how many copies of an all_reduce by shared_buffer go
    through host memory.
    """
    if executor == "cuda":
        return _tune_gpus(Output(json_file), collectives, ranks, result_files, out, checked)
    if result_files:
        raise click.UsageError("--rows is for --executor cuda")
    ranks = ranks or list(_DEFAULT_RANKS)
    if checked is not None and out is not None:
        raise click.UsageError("--check judges a table and writes none: leave --out away")
    output = Output(json_file)
    file = check_writable(out or Path("sennit.tuning")) if checked is None else None
    begin = time.monotonic()
    names = collectives or tuple(name for name in COLLECTIVES if name != "barrier")
    repetitions = tune_work.REPETITIONS[checked is not None]
    rows: list[dict[str, Any]] = []
    failures: list[Failure] = []
    interrupt: KeyboardInterrupt | None = None
    try:
        for count in ranks:
            for collective in names:
                found, failure = tune_work.measure(collective, count, repetitions)
                rows += found
                if failure is not None:
                    failures.append(failure)
                    sys.stderr.write(f"{collective} on {count} ranks ended early: {failure}\n")
                output.console.print(
                    f"{collective} on {count} ranks: {len(rows)} times, "
                    f"{time.monotonic() - begin:.0f} s",
                    markup=False,
                )
    except KeyboardInterrupt as pressed:
        # The times so far are a table of fewer collectives, which takes no other's place.
        interrupt = pressed
        if file is not None and file.exists() and file.stat().st_size > 0:
            file = file.with_name(f"{file.name}.partial")
    if not rows and (interrupt or failures):
        raise interrupt or failures[0]
    if file is not None:
        answer = _write(file, rows)
        _print_fits(output.console, answer)
    elif checked is not None:
        answer = ask(
            _core.tool_tune_check, table=read_text(checked), table_file=str(checked), rows=rows
        )
        _print_judgement(output.console, answer)
    seconds = time.monotonic() - begin
    output.write_json({**document(rows), "seconds": seconds, **answer})
    if interrupt:
        raise interrupt
    return failures[0].exit_code if failures else EXIT_DONE


def _tune_gpus(
    output: Output,
    collectives: tuple[str, ...],
    ranks: list[int] | None,
    result_files: tuple[Path, ...],
    out: Path | None,
    checked: Path | None,
) -> int:
    if checked is not None:
        raise click.UsageError("--check is for tables of host ranks")
    if ranks is not None and len(ranks) != 1:
        raise click.UsageError("--ranks of --executor cuda is one number")
    unknown = [name for name in collectives if name not in tune_gpu.COLLECTIVES]
    if unknown:
        raise click.UsageError(
            f"--executor cuda measures {', '.join(tune_gpu.COLLECTIVES)}; not {unknown[0]}"
        )
    file = check_writable(out or Path("sennit.profile"))
    return tune_gpu.command(output, collectives, ranks[0] if ranks else None, result_files, file)


def _write(file: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    answer = ask(_core.tool_tune, rows=rows)
    write_text(file, answer["text"])
    return {"file": str(file), "times": len(rows), **answer}


def _print_fits(console: Console, answer: dict[str, Any]) -> None:
    table = Table(title="a message between ranks, fitted to chains")
    for name in ("ranks", "protocol", "bytes", "start us", "GB/s"):
        table.add_column(name, justify="left" if name == "protocol" else "right")
    for fit in answer["fits"]:
        table.add_row(
            str(fit["ranks"]),
            fit["protocol"],
            human(fit["bytes"]),
            f"{fit['start_us']:.2f}",
            f"{fit['gbps']:.2f}",
        )
    console.print(table)
    console.print(
        f"{answer['times']} times in {answer['file']}; use it: "
        f"export SENNIT_TUNING_TABLE={json.dumps(str(Path(answer['file']).resolve()))}",
        markup=False,
        soft_wrap=True,
    )


_FORMS = {
    "equation_5": "equation (5)",
    "equation_5_on_shared_cores": "(5) on shared cores",
}


def _print_judgement(console: Console, answer: dict[str, Any]) -> None:
    for cell in answer["choices"]:
        if not cell["within_10_percent"]:
            _print_miss(console, cell)
    _print_share(
        console, "choice within 10 % of the best", answer["within_10_percent"], answer["cells"]
    )
    _print_share(
        console,
        "within that or the cell's own spread",
        answer["within_10_percent_or_spread"],
        answer["cells"],
    )
    for key, name in _FORMS.items():
        form = answer[key]
        _print_share(
            console,
            f"chains of 4 MB and more within 15 % of {name}",
            form["within_15_percent"],
            form["chains"],
        )
        _print_share(
            console,
            "its best chunk within a factor of 2",
            form["chunks_within_factor_2"],
            form["chunks"],
        )


def _print_share(console: Console, what: str, part: int, whole: int) -> None:
    share = f" ({part / whole:.0%})" if whole else ""
    console.print(f"{what}: {part} of {whole}{share}", markup=False)


def _print_miss(console: Console, cell: dict[str, Any]) -> None:
    ratio = "not timed again" if cell["ratio"] is None else f"{cell['ratio']:.2f} times the best"
    spread = "" if cell["ratio"] is None else f", spread {cell['spread']:.0%}"
    choice = "none" if cell["choice"] is None else _way(cell["choice"])
    console.print(
        f"{cell['collective']} of {human(cell['bytes'])} on {cell['ranks']} ranks: "
        f"{choice} is {ratio}, {_way(cell['best'])}{spread}",
        markup=False,
    )


def _way(way: dict[str, Any]) -> str:
    tile = "" if way["tile_bytes"] == 0 else f" {human(way['tile_bytes'])}"
    return f"{way['algorithm']} {way['protocol']}{tile}"
