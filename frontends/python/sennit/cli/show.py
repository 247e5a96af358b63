"""`sennit show`: print a schedule, and draw it."""

from __future__ import annotations

from pathlib import Path

import click

from sennit import _core
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG
from sennit.cli.files import parse_svg, write_text
from sennit.cli.groups import parse_groups
from sennit.cli.names import COLLECTIVE
from sennit.cli.output import Output, json_option
from sennit.cli.schedule_file import need_collective, schedule_arguments, schedule_option
from sennit.cli.tools import ask, warn_unproved

_DEFAULT_RANKS = 4


@click.command("show")
@click.argument("collective", type=COLLECTIVE, required=False, metavar="[COLLECTIVE]")
@click.option("--algorithm", help="By name (see `sennit algorithms`); default: the first.")
@click.option("--ranks", type=click.IntRange(min=1), help="Default: 4.")
@schedule_option
@click.option("--root", type=click.IntRange(min=0), help="Root of a rooted collective.")
@click.option("--radix", type=click.IntRange(min=2), help="Of a k-nomial tree.")
@click.option(
    "--groups",
    callback=parse_groups,
    metavar="0,1/2,3",
    help="Ranks by group, for hierarchical algorithms; default: balanced.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_svg,
    metavar="FILE.svg",
    help="Draw a space-time diagram.",
)
@json_option
def command(
    json_file: str | None,
    collective: str | None,
    algorithm: str | None,
    ranks: int | None,
    root: int | None,
    radix: int | None,
    groups: list[list[int]] | None,
    schedule: Path | None,
    picture: Path | None,
) -> int:
    """Print the schedule of COLLECTIVE, or one of your own.

    For each rank its lanes, for each lane its steps, for one tile.
    """
    need_collective(collective, schedule)
    output = Output(json_file)
    asked = schedule_arguments(
        schedule,
        collective=collective,
        algorithm=algorithm,
        ranks=ranks,
        root=root,
        radix=radix,
        groups=groups,
    )
    if schedule is None:
        asked["ranks"] = ranks or _DEFAULT_RANKS
    answer = ask(_core.tool_show, **asked)
    output.console.print(answer["text"], markup=False)
    is_proved = warn_unproved(answer)
    if picture is not None:
        if answer["svg"] is None:
            raise click.BadParameter(
                f"the schedule on {answer['json']['ranks']} ranks has too many steps to draw "
                "(more than 4096); take fewer ranks"
            )
        write_text(picture, answer["svg"])
    output.write_json(answer)
    return EXIT_DONE if is_proved else EXIT_WRONG
