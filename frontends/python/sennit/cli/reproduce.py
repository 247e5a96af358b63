"""`sennit reproduce`: what was printed or measured, beside what is simulated or modelled here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE
from sennit.cli.files import read_text
from sennit.cli.output import Output, json_option
from sennit.cli.sizes import human
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from rich.console import Console

_PAPERS = 5
_LEAST_BYTES = 1 << 20
"""Below it a call's own cost is most of its time, which a machine file states as one number."""

_REQUESTED = ("algorithm", "paths", "protocol", "pair", "bidirectional", "window", "sm_budget")
"""A row that has one of these is not of the calls that are simulated, which leave all open."""


@click.command("reproduce")
@click.argument("paper", type=click.IntRange(1, _PAPERS), required=False)
@click.option(
    "--measured",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE.json",
    help="Instead: times of GPU ranks, from 1 MB on, beside what is simulated of them.",
)
@click.option(
    "--machine",
    metavar="NAME",
    help="The description of the machine of --measured; default: that of so many H200.",
)
@json_option
def command(
    json_file: str | None, paper: int | None, measured: Path | None, machine: str | None
) -> int:
    """Compute again what PAPER prints (1 to 5; default: all).

    docs/models.md says which paper is which, and what a verdict means.
    """
    output = Output(json_file)
    if measured is not None:
        if paper is not None:
            raise click.UsageError("a paper and --measured are two questions")
        document = _read(measured)
        answer = ask(
            _core.tool_measured,
            machine=machine or _machine_of(measured, document),
            rows=_measured_rows(measured, document),
        )
        _print_measured(output.console, answer)
    else:
        if machine is not None:
            raise click.UsageError("--machine is that of --measured; a paper has its own")
        answer = ask(_core.tool_reproduce, paper=paper)
        _print_papers(output.console, answer)
    output.write_json(answer)
    return EXIT_DONE


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file))
    except ValueError as error:
        raise _no_result_file(file, f"it is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise _no_result_file(file, "it is no JSON object")
    return document


def _machine_of(file: Path, document: dict[str, Any]) -> str:
    """The name of the catalogue for a host with the GPUs of the file."""
    try:
        gpus = document["machine"]["gpus"]
        if gpus and all("H200" in gpu for gpu in gpus):
            return f"h200-x{len(gpus)}"
    except (KeyError, TypeError) as error:
        raise _no_result_file(file, "it does not say on which GPUs it was measured") from error
    raise click.UsageError(f"{file} was not measured on H200; name a --machine that describes it")


def _measured_rows(file: Path, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Each call once: as a node of a graph, where it was also timed as a call of a stream."""
    calls: dict[tuple[str, int, int], dict[str, Any]] = {}
    try:
        rows = [
            row
            for row in document["rows"]
            if row["executor"] == "cuda"
            and row["bytes"] >= _LEAST_BYTES
            and not any(request in row for request in _REQUESTED)
        ]
        for row in sorted(rows, key=lambda row: bool(row["mode"] != "graph")):
            call = (row["collective"], row["ranks"], row["bytes"])
            calls.setdefault(
                call,
                {
                    "collective": row["collective"],
                    "ranks": row["ranks"],
                    "bytes": row["bytes"],
                    "time_us": row["time_us"]["p50"],
                },
            )
        return [calls[call] for call in sorted(calls)]
    except (KeyError, TypeError) as error:
        raise _no_result_file(file, "its rows are not those of GPU ranks") from error


def _no_result_file(file: Path, why: str) -> click.BadParameter:
    return click.BadParameter(
        f"{file} is no result file: {why}; take what `sennit bench --executor cuda --json` writes"
    )


def _print_measured(console: Console, answer: dict[str, Any]) -> None:
    table = Table(title=f"measured, and simulated on {answer['machine']}")
    table.add_column("collective")
    table.add_column("algorithm")
    for name in ("bytes", "measured us", "predicted us", "ratio"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for row in answer["rows"]:
        table.add_row(
            row["collective"],
            row["algorithm"],
            human(row["bytes"]),
            f"{row['measured_us']:.1f}",
            f"{row['predicted_us']:.1f}",
            f"{row['ratio']:.2f}",
            row["verdict"],
        )
    console.print(table)
    console.print(
        f"{answer['within']} of {len(answer['rows'])} within {answer['tolerance']:.0%}",
        markup=False,
    )


def _print_papers(console: Console, answer: dict[str, Any]) -> None:
    table = Table()
    table.add_column("paper", justify="right")
    table.add_column("where")
    table.add_column("what")
    table.add_column("paper says", justify="right")
    table.add_column("ours", justify="right")
    table.add_column("unit")
    table.add_column("how")
    table.add_column("verdict")
    for row in answer["rows"]:
        printed = row["paper_value"]
        table.add_row(
            str(row["paper"]),
            row["figure"],
            row["quantity"],
            "" if printed is None else f"{printed:.4g}",
            f"{row['ours']:.4g}",
            row["unit"],
            row["how"],
            row["verdict"],
        )
    console.print(table)
    counts = Counter(row["verdict"] for row in answer["rows"])
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
