"""`sennit bench --executor cuda`: the same options in the words of sennit-compare."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from sennit import _core
from sennit.cli import compare_program, gpu_rows, names
from sennit.cli.bench_options import refuse_pair_beyond, refuse_unknown_codec
from sennit.cli.failure import EXIT_RANK_FAILED, Failure, missing
from sennit.cli.gpu_table import GpuTable
from sennit.cli.load_table import LoadTable
from sennit.cli.sizes import sweep
from sennit.cli.tools import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from sennit.cli import launcher
    from sennit.cli.output import Output

    Progress = Callable[[Output, dict[str, Any]], AbstractContextManager[Callable[[], None]]]

ONLY_HERE = ("registered", "share", "sm_budget", "beside", "load_sms")
"""Options that host ranks do not have."""
_COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter"),
    *("all_to_all", "broadcast", "reduce", "send_recv"),
)
_PROTOCOLS = ("ll", "ll128", "slots", "direct_put", "direct_get", "copy_engines")
_OTHER_WAYS = ("shares", "engines")  # of Sennit, which --against names beside nccl
_MODES = ("graph", "stream", "call")
_PATHS = ("nvlink", "device", "host", "nvlink,host", "device,host")
_RANKS_MIN, _RANKS_MAX = 2, 16
_ELEMENT_BYTES = 4
# The values that these options have here, the first of them by default.
_FIXED: dict[str, tuple[Any, ...]] = {
    "dtype": ("float32",),
    "op": ("sum",),
    "root": (None, 0),
    "tile_bytes": (None,),
    "in_place": (False,),
    "seed": (1,),
    "max_seconds": (None,),
    "pin": (True,),
    "schedule": (None,),
    "cycles": (1,),
}


@dataclasses.dataclass(frozen=True)
class Place:
    """What there has to be.

    Attributes:
        program: sennit-compare.
        nccl: The rival's library; none where ranks share GPUs, which it refuses.
        nccl_version: Of it.
    """

    program: Path
    nccl: str | None = None
    nccl_version: str | None = None


def refuse_what_is_not_meant(options: Mapping[str, Any], place: launcher.Place | None) -> None:
    """Refuse options that say nothing to GPU ranks.

    Raises:
        click.UsageError: There is such a one.
    """
    if place is not None:
        raise click.UsageError(
            f"--executor cuda starts a process a rank itself; do not use {place.launcher}"
        )
    for name, values in _FIXED.items():
        if options[name] not in values:
            words = f"--{name.replace('_', '-')} {options[name]}"
            raise click.UsageError(
                f"{words} is for --executor host; GPU ranks are timed with "
                f"{' or '.join(str(value) for value in values if value is not None) or 'none'}"
            )
    refuse_unknown_codec(options["codec"])
    for collective in options["collectives"]:
        _expect_one_of(collective, _COLLECTIVES, "--executor cuda times")
    _expect_one_of(options["mode"] or _MODES[0], _MODES, "--mode of GPU ranks is")
    _expect_one_of(options["protocol"] or _PROTOCOLS[0], _PROTOCOLS, "--protocol of GPU ranks is")
    _expect_one_of(options["paths"] or _PATHS[0], _PATHS, "--paths of GPU ranks are")
    for rival in options["against"]:
        _expect_one_of(rival, ("nccl", *_OTHER_WAYS), "--against on GPU ranks takes")
    if len(_other_ways(options)) > 1:
        raise click.UsageError("--against takes shares or engines, not both")
    _refuse_shares_of_nothing(options)
    _refuse_loads_of_nothing(options)
    is_of_messages = options["pair"] is not None or options["window"] != 1
    if is_of_messages and "send_recv" not in options["collectives"]:
        raise click.UsageError("--pair and --window are for send_recv")
    if options["bidirectional"] and options["pair"] is None:
        raise click.UsageError(
            "--bidirectional needs --pair: without it each rank sends to the next"
        )


def _expect_one_of(value: str, allowed: tuple[str, ...], words: str) -> None:
    if value not in allowed:
        raise click.UsageError(f"{words} {', '.join(allowed)}; not {value}")


def _refuse_shares_of_nothing(options: Mapping[str, Any]) -> None:
    if not options["share"]:
        return
    if options["paths"] not in (None, "nvlink,host", "device,host"):
        raise click.UsageError("--share needs --paths nvlink,host or device,host")
    if "dynamic" in options["share"]:
        if options["mode"] != "stream":
            raise click.UsageError("--share dynamic needs --mode stream: a graph keeps its share")
        if set(options["collectives"]) != {"send_recv"}:
            raise click.UsageError("--share dynamic is for send_recv")
    if len(options["share"]) > 1 and "shares" not in options["against"]:
        raise click.UsageError("several of --share are compared by --against shares")


def _refuse_loads_of_nothing(options: Mapping[str, Any]) -> None:
    if options["load_sms"] is not None and options["beside"] != "matmul":
        raise click.UsageError("--load-sms needs --beside matmul")
    if options["beside"] is None:
        return
    if options["mode"] == "call":
        raise click.UsageError("--beside needs --mode graph or stream: call waits for each call")
    if options["registered"] or _other_ways(options):
        raise click.UsageError("--beside goes with neither --registered nor --against shares")


def _other_ways(options: Mapping[str, Any]) -> list[str]:
    return [way for way in _OTHER_WAYS if way in options["against"]]


def _rank_count(ranks: int | None, gpus: int) -> int:
    """The ranks that were asked for; else all GPUs, or two that share one."""
    wanted = ranks or max(_RANKS_MIN, min(gpus, _RANKS_MAX))
    if not _RANKS_MIN <= wanted <= _RANKS_MAX:
        raise click.UsageError(f"--ranks of GPUs is {_RANKS_MIN} to {_RANKS_MAX}; not {wanted}")
    return wanted


def _find_gpus() -> int:
    """How many there are.

    Raises:
        Failure: None.
    """
    machine = ask(_core.tool_machine)
    if not machine["gpus"]:
        raise missing(
            f"--executor cuda needs a GPU: {machine['gpu_note'] or 'there is none'}",
            "use --executor host, or a machine where nvidia-smi -L lists some",
        )
    return len(machine["gpus"])


def _refuse_nccl(options: Mapping[str, Any], ranks: int, gpus: int) -> None:
    why = f"NCCL refuses to share GPUs, and these are {ranks} ranks of {gpus}"
    if "nccl" in options["against"]:
        raise click.UsageError(f"--against nccl: {why}")
    if options["registered"]:
        raise click.UsageError(f"--registered is memory of NCCL: {why}")
    if options["beside"]:
        raise click.UsageError(f"--beside compares with NCCL: {why}")


def _find_place(options: Mapping[str, Any], ranks: int | None) -> tuple[Place, int]:
    """The program, the rival, and how many ranks there are.

    Raises:
        Failure: Something is not here.
    """
    program = compare_program.find_program()
    gpus = _find_gpus()
    ranks = _rank_count(ranks, gpus)
    if ranks > gpus:
        _refuse_nccl(options, ranks, gpus)
        return Place(program), ranks
    nccl = compare_program.find_nccl()
    return Place(program, nccl, compare_program.nccl_version(nccl)), ranks


def _work_orders(options: Mapping[str, Any], ranks: int) -> Iterator[dict[str, Any]]:
    """One for each collective, for tables and for the program."""
    for collective in options["collectives"] or ("all_reduce",):
        quantum = _ELEMENT_BYTES * (ranks if collective in names.PER_RANK else 1)
        check = options["check"] if options["check_count"] is None else options["check_count"] > 0
        yield {
            **options,
            "collective": collective,
            "ranks": ranks,
            "mode": options["mode"] or _MODES[0],
            "sizes": sweep(options["begin"], options["end"], options["factor"], quantum),
            "check": check,
        }


def arguments_of(order: Mapping[str, Any], nccl: str | None) -> list[str]:
    """A work order in the words of the program."""
    words = {
        "--nccl": nccl,
        "--collective": order["collective"],
        "--ranks": order["ranks"],
        "--mode": order["mode"],
        "--sizes": ",".join(str(size) for size in order["sizes"]),
        "--samples": order["iterations"],
        "--warmup": order["warmup"],
        "--check": _yes_or_no(order["check"]),
        "--registered": None if order["registered"] is None else _yes_or_no(order["registered"]),
        "--algorithm": order["algorithm"],
        "--protocol": order["protocol"],
        "--codec": order["codec"],
        "--sm-budget": order["sm_budget"],
        "--beside": order["beside"],
        "--load-sms": order["load_sms"],
        "--cublas": compare_program.find_cublas() if order["beside"] == "matmul" else None,
        **_words_of_paths(order),
        **_words_of_messages(order),
    }
    return [
        word for flag, value in words.items() if value is not None for word in (flag, str(value))
    ]


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _words_of_paths(order: Mapping[str, Any]) -> dict[str, str | None]:
    """With --against shares they are tried beside Sennit's choice, else its calls request them."""
    paths, share = order["paths"], ",".join(order["share"])
    ways = _other_ways(order)
    if ways == ["shares"]:
        return {"--against": "shares", "--paths": paths, "--share": share or None}
    both = (paths or "nvlink,host").replace(",", "+")
    path = f"{both}:{share}" if share else paths and both
    return {"--against": ways[0] if ways else None, "--path": path}


def _words_of_messages(order: Mapping[str, Any]) -> dict[str, str | int]:
    if order["collective"] != "send_recv":
        return {}
    pair = order["pair"]
    between = {} if pair is None else {"--pair": f"{pair[0]}:{pair[1]}"}
    return {
        **between,
        "--bidirectional": _yes_or_no(order["bidirectional"]),
        "--window": order["window"],
    }


def measure(
    options: Mapping[str, Any],
    ranks: int | None,
    output: Output,
    progress: Progress,
    rows: list[dict[str, Any]],
) -> dict[str, Any]:
    """Add the rows of all collectives, printed as they are measured; the version of NCCL if used.

    Raises:
        Failure: Something that this needs is not here, or a rank failed.
    """
    place, ranks = _find_place(options, ranks)
    refuse_pair_beyond(ranks, options["pair"])
    for order in _work_orders(options, ranks):
        table_type, row_of = (
            (LoadTable, gpu_rows.load_row) if order["beside"] else (GpuTable, gpu_rows.row)
        )
        table = table_type(output.console, place.nccl_version)
        arguments = arguments_of(order, place.nccl)
        before = len(rows)
        with progress(output, order) as advance:
            for line in compare_program.measured_rows(place.program, arguments):
                rows.append(row_of(line))
                table.add_of(order, rows[-1])
                advance()
        missed = len(order["sizes"]) - (len(rows) - before)
        if missed:
            raise Failure(
                f"sennit: {place.program} ended well without {missed} of the rows of "
                f"{order['collective']}",
                EXIT_RANK_FAILED,
            )
    return {"nccl": place.nccl_version}
