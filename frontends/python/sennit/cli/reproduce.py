"""`sennit reproduce`: what five papers print, beside what is simulated or modelled here."""

from __future__ import annotations

from collections import Counter

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask

_PAPERS = 5


@click.command("reproduce")
@click.argument("paper", type=click.IntRange(1, _PAPERS), required=False)
@json_option
def command(json_file: str | None, paper: int | None) -> int:
    """Compute again what PAPER prints (1 to 5; default: all).

    docs/models.md says which paper is which, and what a verdict means.
    """
    output = Output(json_file)
    answer = ask(_core.tool_reproduce, paper=paper)
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
    output.console.print(table)
    counts = Counter(row["verdict"] for row in answer["rows"])
    output.console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    output.write_json(answer)
    return EXIT_DONE
