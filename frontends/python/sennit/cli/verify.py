"""`sennit verify`: prove schedules."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG
from sennit.cli.names import COLLECTIVE
from sennit.cli.output import Output, json_option
from sennit.cli.schedule_file import schedule_arguments, schedule_option
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rich.console import Console

_DEFAULT_RANKS = "1:16"


@click.command("verify")
@click.argument("collective", type=COLLECTIVE, required=False, metavar="[COLLECTIVE]")
@click.option("--collective", "named", type=COLLECTIVE, metavar="NAME", help="The same.")
@click.option("--algorithm", help="This one only.")
@click.option("--ranks", metavar="N|FIRST:LAST", help=f"Rank counts.  [default: {_DEFAULT_RANKS}]")
@click.option("--protocol", type=click.Choice(["slots", "direct"]), help="This one only.")
@schedule_option
@click.option("--codec", help="Of every channel, where the algorithm can have it.")
@json_option
def command(
    json_file: str | None,
    collective: str | None,
    named: str | None,
    algorithm: str | None,
    ranks: str | None,
    protocol: str | None,
    schedule: Path | None,
    codec: str | None,
) -> int:
    """Prove schedules right: those of COLLECTIVE, of all collectives, or one of your own.

    Exact contributions, no race, no deadlock for any number of tiles: for every algorithm, rank
    count and root that is asked for, in and out of place.
    """
    if named is not None and collective not in (None, named):
        raise click.UsageError(f"COLLECTIVE is {collective} and --collective {named}; take one")
    output = Output(json_file)
    asked = schedule_arguments(
        schedule,
        collective=collective or named,
        algorithm=algorithm,
        ranks=ranks,
        protocol=protocol,
        codec=codec,
    )
    if schedule is None:
        asked["ranks"] = ranks or _DEFAULT_RANKS
    with _proving(output.console):
        answer = ask(_core.tool_verify, **asked)
    _print(output.console, answer, codec)
    output.write_json(answer)
    return EXIT_WRONG if answer["failed"] else EXIT_DONE


@contextlib.contextmanager
def _proving(console: Console) -> Iterator[None]:
    """Show on a terminal that proofs are made, which may take minutes."""
    if not console.is_terminal:
        yield
        return
    with Progress(
        SpinnerColumn(), TextColumn("proving"), TimeElapsedColumn(), console=console, transient=True
    ) as progress:
        progress.add_task("")
        yield


def _print(console: Console, answer: dict[str, Any], codec: str | None) -> None:
    table = Table("collective", "algorithm")
    for column in ("ranks", "proved", "refused", "failed"):
        table.add_column(column, justify="right")
    for row in answer["algorithms"]:
        first, last = row["ranks_first"], row["ranks_last"]
        table.add_row(
            row["collective"],
            row["algorithm"],
            str(first) if first == last else f"{first} to {last}",
            str(row["instances"] - row["failed"]),
            str(row["refused"] or ""),
            str(row["failed"] or ""),
        )
    console.print(table)
    for first, *more in _by_reason(answer["failures"]):
        others = f", and {len(more)} more like it" if more else ""
        console.print(
            f"{first['collective']} {first['algorithm']} on {first['ranks']} ranks{others}: "
            f"{first['why']}",
            markup=False,
        )
    proof = answer.get("proof")
    if proof is not None and proof["proved"]:
        console.print(_in_words(proof), markup=False)
    coded = f"{answer['coded']} with {codec}, " if codec else ""
    console.print(
        f"{answer['instances']} instances, {coded}{answer['failed']} failed, "
        f"{answer['refused']} refused by name, {answer['seconds']:.1f} s"
    )


def _by_reason(failures: list[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Failures of one algorithm for one reason, which many rank counts have, together."""
    by_reason: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for failure in failures:
        reason = failure["why"].partition(": ")[2]  # behind the shape
        key = (failure["collective"], failure["algorithm"], reason)
        by_reason.setdefault(key, []).append(failure)
    return by_reason.values()


def _in_words(proof: dict[str, Any]) -> str:
    in_place = "in place too" if proof["in_place"] else f"not in place: {proof['why_not_in_place']}"
    order = "" if proof["reproducible"] else "not "
    return (
        f"proved with {proof['slots']} slots a channel; {in_place}; {order}reduced in one step in "
        "the order of ranks"
    )
