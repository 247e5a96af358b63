"""Files that options name: read, written, and found wanting before anything is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path


def read_text(file: Path) -> str:
    """The text of a file that was asked for by name.

    Raises:
        click.BadParameter: It cannot be read, or is no text.
    """
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise click.BadParameter(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"cannot read {file}: it is no UTF-8, {error.reason}") from error


def check_writable(file: Path) -> Path:
    """Refuse a file that cannot be written, before there is anything to write.

    Raises:
        click.BadParameter: It cannot.
    """
    is_new = not file.exists()
    try:
        with file.open("ab"):
            pass
        if is_new:
            file.unlink()
    except OSError as error:
        raise click.BadParameter(f"cannot write {file}: {error.strerror}") from error
    return file


def parse_output(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    value: Path | None,
) -> Path | None:
    """Give the file of an option that can be written."""
    return None if value is None else check_writable(value)


def parse_svg(ctx: click.Context, param: click.Parameter, value: Path | None) -> Path | None:
    """Give the file of an option for a picture."""
    if value is not None and value.suffix.lower() != ".svg":
        raise click.BadParameter(f"pictures are SVG: {value} does not end in .svg", ctx, param)
    return parse_output(ctx, param, value)


def write_text(file: Path, text: str) -> None:
    """Write a file that was asked for by name.

    Raises:
        click.BadParameter: It cannot be written.
    """
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise click.BadParameter(f"cannot write {file}: {error.strerror}") from error
