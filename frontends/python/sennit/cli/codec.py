"""`sennit codec`: what each codec makes of an array in a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table

from sennit import codecs
from sennit.cli.codec_errors import CodecErrors, measure
from sennit.cli.failure import EXIT_DONE, EXIT_WRONG
from sennit.cli.output import Output, json_option
from sennit.elements import typed

_COLUMNS = ("codec", "bits", "bytes", "ratio", "rms", "bias", "worst", "bound")


def _read(file: Path, *, is_bfloat16: bool) -> Any:
    try:
        array = np.load(file, allow_pickle=False)
    except OSError as error:
        raise click.BadParameter(f"cannot read {file}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise click.BadParameter(
            f"{file} is no array of numbers: write it with numpy.save"
        ) from error
    if not isinstance(array, np.ndarray):
        raise click.BadParameter(f"{file} holds several arrays; save one as .npy")
    if array.size == 0:
        raise click.BadParameter(f"the array in {file} has no values")
    if array.dtype.kind in "OSUMm":  # objects, texts and times
        raise click.BadParameter(
            f"{file} holds {array.dtype}, not numbers: write an array of floats with numpy.save"
        )
    if is_bfloat16 and array.dtype != np.uint16:
        raise click.BadParameter(f"--bfloat16 needs bits in uint16; {file} has {array.dtype}")
    array = np.ascontiguousarray(array)
    return typed(array, "bfloat16") if is_bfloat16 else array


def _cells(row: CodecErrors) -> tuple[str, ...]:
    return (
        row.codec,
        f"{row.bits:.2f}",
        str(row.coded_bytes),
        f"{row.ratio:.2f}",
        *(f"{number:.1e}" for number in (row.rms, row.bias, row.worst, row.bound)),
    )


@click.command("codec")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.npy")
@click.option("--codec", type=click.Choice(codecs.names()), help="This one only.")
@click.option("--bfloat16", is_flag=True, help="The file holds the bits of bfloat16, as uint16.")
@json_option
def command(json_file: str | None, file: Path, codec: str | None, bfloat16: bool) -> int:
    """Show what codecs make of the array in FILE.npy.

    For each codec that takes the type of the array: bits a value, bytes, the ratio to the bytes of
    the array; the errors' root mean square and mean, as parts of the values' root mean square; the
    worst error and its bound, as parts of the largest magnitude in its block.
    """
    output = Output(json_file)
    array = _read(file, is_bfloat16=bfloat16)
    rows = list(measure(array, codec))
    if not rows:
        raise click.BadParameter(
            f"no codec takes the type of {file}: codecs are for floats; bits of bfloat16 need "
            "--bfloat16"
        )
    table = Table(*_COLUMNS)
    for row in rows:
        table.add_row(*_cells(row))
    output.console.print(table)
    for row in rows:
        if row.not_finite:
            output.console.print(
                f"{row.codec}: {row.not_finite} finite values are lost to NaN or "
                "infinity: their blocks hold one, or lie at the end of the range"
            )
        if row.outside:
            output.console.print(f"{row.codec}: {row.outside} blocks exceed the bound", style="red")
    output.write_json({"file": str(file), "rows": [asdict(row) for row in rows]})
    return EXIT_WRONG if any(row.outside for row in rows) else EXIT_DONE
