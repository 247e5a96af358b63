"""`sennit verify`: prove schedules."""

from __future__ import annotations

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG
from sennit.cli.names import COLLECTIVES
from sennit.cli.output import Output, json_option
from sennit.cli.tools import ask

_COLUMNS = ("collective", "algorithm", "ranks", "root", "why")


@click.command("verify")
@click.option("--collective", type=click.Choice(COLLECTIVES), help="This one only.")
@click.option("--algorithm", help="This one only.")
@click.option(
    "--ranks", default="1:16", show_default=True, metavar="N|FIRST:LAST", help="Rank counts."
)
@click.option("--protocol", type=click.Choice(["slots", "direct"]), help="This one only.")
@click.option("--codec", help="Of every channel, where the algorithm can have it.")
@json_option
def command(
    json_file: str | None,
    collective: str | None,
    algorithm: str | None,
    ranks: str,
    protocol: str | None,
    codec: str | None,
) -> int:
    """Prove schedules right.

    Exact contributions, no race, no deadlock for any number of tiles: for every algorithm, rank
    count and root that is asked for, in and out of place.
    """
    output = Output(json_file)
    answer = ask(
        _core.tool_verify,
        collective=collective,
        algorithm=algorithm,
        ranks=ranks,
        protocol=protocol,
        codec=codec,
    )
    failures = answer["failures"]
    if failures:
        table = Table(*_COLUMNS)
        for failure in failures:
            table.add_row(*(str(failure.get(column, "")) for column in _COLUMNS))
        output.console.print(table)
    coded = f"{answer['coded']} with {codec}, " if codec else ""
    output.console.print(
        f"{answer['instances']} instances, {coded}{answer['failed']} failed, "
        f"{answer['refused']} refused by name, {answer['seconds']:.1f} s"
    )
    output.write_json(answer)
    return EXIT_WRONG if answer["failed"] else EXIT_DONE
