"""`sennit simulate`: how long a collective would take on a machine that need not be here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from sennit import _core
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG
from sennit.cli.files import parse_output, parse_svg, write_text
from sennit.cli.groups import parse_groups
from sennit.cli.machine_choice import machine_arguments
from sennit.cli.names import COLLECTIVE, PER_RANK
from sennit.cli.output import Output, json_option
from sennit.cli.schedule_file import need_collective, schedule_arguments, schedule_option
from sennit.cli.sizes import human, microseconds, parse_size
from sennit.cli.tools import ask, warn_unproved

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_LINKS = 12
_SAID_BY_A_SCHEDULE = ("algorithm", "ranks", "root", "radix", "groups")


@click.command("simulate")
@click.argument("collective", type=COLLECTIVE, required=False, metavar="[COLLECTIVE]")
@schedule_option
@click.option("--machine", required=True, metavar="NAME|FILE", help="See `sennit machine --list`.")
@click.option(
    "--bytes",
    "size",
    required=True,
    callback=parse_size,
    help="Of the vector of broadcast, reduce and all_reduce; of one rank's part otherwise.",
)
@click.option("--algorithm", help="By name (see `sennit algorithms`); default: the first.")
@click.option("--ranks", type=click.IntRange(min=1), help="Default: one for each GPU of a node.")
@click.option("--ranks-per-gpu", type=click.IntRange(min=1), help="Default: 1.")
@click.option(
    "--mps/--no-mps",
    default=None,
    help="Whether ranks of one GPU have CUDA's Multi-Process Service, or take turns; default: yes.",
)
@click.option("--root", type=click.IntRange(min=0), help="Root of a rooted collective.")
@click.option("--radix", type=click.IntRange(min=2), help="Of a k-nomial tree.")
@click.option(
    "--groups",
    callback=parse_groups,
    metavar="0,1/2,3",
    help="Ranks by group, for hierarchical algorithms; default: those of the machine.",
)
@click.option("--tile", callback=parse_size, help="Bytes of a tile; default: by model.")
@click.option(
    "--path",
    help="For every channel that can take it: nvlink, device, pcie, host, rail, ..., or cards of "
    "nodes: rail/0+rail/1. As GPU ranks have it: nvlink+host:N or device+host:N, N percent through "
    "host memory.",
)
@click.option(
    "--protocol",
    help="As GPU ranks run it: ll, ll128, slots, direct_put, direct_get, copy_engines.",
)
@click.option(
    "--trace",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_output,
    metavar="FILE.json",
    help="Write a timeline for ui.perfetto.dev.",
)
@click.option(
    "--picture",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=parse_svg,
    metavar="FILE.svg",
    help="Draw the timeline and the use of links.",
)
@json_option
def command(
    json_file: str | None,
    collective: str | None,
    schedule: Path | None,
    machine: str,
    size: int,
    tile: int | None,
    trace: Path | None,
    picture: Path | None,
    **options: Any,
) -> int:
    """Predict how long COLLECTIVE takes on a machine that need not be here."""
    need_collective(collective, schedule)
    said_by_it = {name: options.pop(name) for name in _SAID_BY_A_SCHEDULE}
    output = Output(json_file)
    wanted = trace is not None or picture is not None
    answer = ask(
        _core.tool_simulate,
        **schedule_arguments(schedule, collective=collective, **said_by_it),
        bytes=size,
        tile_bytes=tile,
        timeline=wanted or None,
        **machine_arguments(machine),
        **options,
    )
    timeline, svg = answer.pop("trace"), answer.pop("svg")
    if trace is not None:
        write_text(trace, json.dumps(timeline))
    if picture is not None:
        if svg is None:
            raise click.BadParameter(
                f"{answer['steps']} steps are too many to draw; take fewer ranks or larger tiles"
            )
        write_text(picture, svg)
    _print(output.console, answer)
    is_proved = warn_unproved(answer)
    output.write_json(answer)
    return EXIT_DONE if is_proved else EXIT_WRONG


def _print(console: Console, answer: dict[str, Any]) -> None:
    console.print(
        f"{answer['collective']} {answer['algorithm']} of {human(answer['bytes'])} on "
        f"{answer['ranks']} ranks of {answer['machine']}, tile {human(answer['tile_bytes'])}, "
        f"paths {', '.join(answer['paths']) or 'none'}",
        markup=False,
    )
    strands = answer["strands"]
    whole = sum(strand["share"] for strand in strands)
    for strand in strands if len(strands) > 1 else ():
        console.print(
            f"{100 * strand['share'] / whole:.0f} % {strand['algorithm']} by "
            f"{', '.join(strand['protocols'])}, tile {human(strand['tile_bytes'])}",
            markup=False,
        )
    seconds = answer["seconds"]
    rate = f", algbw {_algbw_gbps(answer):.3g} GB/s" if seconds > 0 and answer["bytes"] else ""
    console.print(f"predicted: {microseconds(seconds)}{rate}")
    table = Table(title="busiest links")
    table.add_column("link")
    table.add_column("GB/s", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("busy", justify="right")
    for link, others in _grouped(answer["links"])[:_SHOWN_LINKS]:
        table.add_row(
            f"{link['name']} and {others} more like it" if others else link["name"],
            f"{link['bandwidth_gbps']:g}",
            f"{link['bytes']:.0f}",
            f"{link['busy'] * 100:.1f} %",
        )
    console.print(table)


def _algbw_gbps(answer: dict[str, Any]) -> float:
    """Size over time, where the size is that of `bench`: of the whole buffer."""
    parts = answer["ranks"] if answer["collective"] in PER_RANK else 1
    return float(answer["bytes"] * parts / answer["seconds"] * 1e-9)


def _grouped(links: list[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Links that are as fast and as busy as each other as one of them and the number of others."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for link in links:
        key = (
            f"{link['bandwidth_gbps']:g}",
            f"{link['bytes']:.0f}",
            f"{link['busy'] * 100:.1f}",
        )
        groups.setdefault(key, []).append(link)
    return [(first, len(more)) for first, *more in groups.values()]
