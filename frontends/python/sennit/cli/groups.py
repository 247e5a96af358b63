"""`--groups 0,1/2,3`: ranks by group."""

from __future__ import annotations

import click


def parse_groups(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[list[int]] | None:
    """Read 0,1/2,3 as [[0, 1], [2, 3]]."""
    if value is None:
        return None
    try:
        return [[int(rank) for rank in group.split(",")] for group in value.split("/")]
    except ValueError:
        message = f"{value!r} is not like 0,1/2,3: ranks by group"
        raise click.BadParameter(message, ctx, param) from None
