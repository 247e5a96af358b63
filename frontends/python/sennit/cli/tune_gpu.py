"""`sennit tune --executor cuda`: a GPU profile from times on this machine, or of result files."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import click

from sennit import _core
from sennit.cli import compare_program, gpu_rows, profile_rows
from sennit.cli.failure import EXIT_DONE, missing
from sennit.cli.files import read_text, write_text
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sennit.cli.output import Output

COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter"),
    *("all_to_all", "broadcast", "send_recv"),
)
_GRAPH_SIZES = ",".join(str(1 << shift) for shift in (16, 18, 20, 22, 24))
_STREAM_SIZES = ",".join(str(1 << shift) for shift in (22, 24, 26, 28, 30))
_SHARE_SIZES = ",".join(str(1 << shift) for shift in (27, 28, 29, 30))
_SHARES = "0,2,4,6,8,10,12"
_WITH_SHARES = ("all_gather", "all_to_all", "broadcast")
# Of algorithm shared_buffer: copies to and from rank 0, whose GPU all ranks share.
_COPIES_SHARED = "all_reduce"
_COPY_SIZES = ",".join(str(1 << shift) for shift in (12, 14, 16, 18, 20, 22, 24))


def command(
    output: Output,
    collectives: Sequence[str],
    ranks: int | None,
    result_files: Sequence[Path],
    file: Path,
) -> int:
    """Write the profile of the GPUs that were measured.

    Args:
        output: Where to say what was found.
        collectives: To measure; all if empty.
        ranks: How many; all GPUs if None.
        result_files: Of `sennit bench --executor cuda --json`; measured here if empty.
        file: The profile.

    Raises:
        click.UsageError: Files and GPUs do not fit together, or nothing in them compares ways.
    """
    if result_files:
        documents = [_document(result) for result in result_files]
        gpus = sorted({gpu for document in documents for gpu in document["machine"]["gpus"]})
        rows = [row for document in documents for row in document["rows"]]
        origin = ", ".join(
            f"{result.name} ({document.get('commit')}, {document.get('date')})"
            for result, document in zip(result_files, documents, strict=True)
        )
    else:
        gpus, count = _gpus_here()
        ranks = ranks or count
        if ranks > count:
            rows = list(_measured_shared(output, collectives or (_COPIES_SHARED,), ranks))
        else:
            rows = list(_measured(output, collectives or COLLECTIVES, ranks))
        who = f"{ranks} ranks on {count}" if ranks > count else f"{ranks}"
        origin = f"{who} of them, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
    if len(gpus) != 1:
        raise click.UsageError(f"a profile is of one model of GPUs; these are {', '.join(gpus)}")
    base = _nearest(gpus[0])
    text, notes = profile_rows.derive(base["text"], rows)
    if not notes:
        raise click.UsageError(
            "no row compares ways: measure with sennit bench --executor cuda --against engines"
        )
    text = _with_head(text, gpus[0], origin)
    answer = ask(_core.tool_gpu_profiles, text=text)["profiles"][0]
    write_text(file, text)
    for note in notes:
        output.console.print(f"measured: {note}", markup=False)
    output.console.print(
        f"all else as in profile {base['name']}; use it: export SENNIT_GPU_PROFILE="
        f"{json.dumps(str(file.resolve()))}",
        markup=False,
        soft_wrap=True,
    )
    output.write_json({"file": str(file), "base": base["name"], "measured": notes, **answer})
    return EXIT_DONE


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_text(file))
        machine, rows = document["machine"], document["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise click.BadParameter(f"{file} is no result file: {error}") from error
    if not machine.get("gpus") or not isinstance(rows, list):
        raise click.BadParameter(f"{file} has no rows of GPUs")
    return dict(document)


def _gpus_here() -> tuple[list[str], int]:
    machine = ask(_core.tool_machine)
    if not machine["gpus"]:
        raise missing(
            f"--executor cuda needs a GPU: {machine['gpu_note'] or 'there is none'}",
            "give result files of such a machine with --rows",
        )
    return sorted({gpu["name"] for gpu in machine["gpus"]}), len(machine["gpus"])


def _measured(output: Output, collectives: Sequence[str], ranks: int) -> Iterator[dict[str, Any]]:
    program, nccl = compare_program.find_program(), compare_program.find_nccl()
    for collective in collectives:
        orders = [("graph", _GRAPH_SIZES, "engines"), ("stream", _STREAM_SIZES, "engines")]
        if collective in _WITH_SHARES:
            orders.append(("stream", _SHARE_SIZES, "shares"))
        for mode, sizes, against in orders:
            arguments = [
                *("--nccl", nccl, "--collective", collective, "--ranks", str(ranks)),
                *("--mode", mode, "--sizes", sizes, "--against", against),
                *(("--share", _SHARES) if against == "shares" else ()),
            ]
            for line in compare_program.measured_rows(program, arguments):
                yield gpu_rows.row(line)
        output.console.print(f"{collective} on {ranks} GPUs: timed", markup=False)


def _measured_shared(
    output: Output, collectives: Sequence[str], ranks: int
) -> Iterator[dict[str, Any]]:
    """How many copies to and from rank 0 go through the host, where ranks share GPUs."""
    if list(collectives) != [_COPIES_SHARED]:
        raise click.UsageError(
            f"{ranks} ranks share GPUs, and tune measures there what {_COPIES_SHARED} alone has: "
            "shares of the copies of shared_buffer"
        )
    arguments = [
        *("--collective", _COPIES_SHARED, "--algorithm", "shared_buffer", "--ranks", str(ranks)),
        *("--mode", "graph", "--sizes", _COPY_SIZES, "--against", "shares"),
        *("--share", ",".join(map(str, _shares_of_copies(ranks)))),
    ]
    for line in compare_program.measured_rows(compare_program.find_program(), arguments):
        yield gpu_rows.row(line)
    output.console.print(
        f"{_COPIES_SHARED}, {ranks} ranks on shared GPUs: timed. It counts for calls that request "
        "algorithm shared_buffer and path device+host",
        markup=False,
    )


def _shares_of_copies(ranks: int) -> list[int]:
    """One copy, about a quarter, two and three of them, and all, in percent."""
    others = ranks - 1
    counts = {1, *(max(1, round(others * quarters / 4)) for quarters in (1, 2, 3, 4))}
    return sorted(round(100 * count / others) for count in counts)


def _model(gpu: str) -> str:
    """The word of the driver's name that says the model: "NVIDIA H100 80GB HBM3" is an H100."""
    words = [word for word in gpu.split() if word not in ("NVIDIA", "Tesla", "GeForce")]
    return words[0] if words else gpu


def _nearest(gpu: str) -> dict[str, Any]:
    profiles: list[dict[str, Any]] = ask(_core.tool_gpu_profiles)["profiles"]
    return next(
        (profile for profile in profiles if any(word in gpu for word in profile["gpus"])),
        profiles[0],
    )


def _with_head(text: str, gpu: str, origin: str) -> str:
    profile = profile_rows.Profile(text)
    model = _model(gpu)
    profile.set_word("name", model.lower())
    profile.set_word("gpus", model)
    profile.set_word("measured_on", f"{gpu}: {origin}")
    return profile.text()
