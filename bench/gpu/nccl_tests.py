"""Runs NVIDIA's nccl-tests over this library and over NCCL, and reports what passed and how fast.

    python3 bench/gpu/nccl_tests.py --programs DIR --ours LIB --nvidia LIB --out FILE [--ranks N]
        [--limit-s S] [--only TEXT]...

The ranks are processes under mpirun (programs of the name X_perf_mpi), threads of one process, and
GPUs of one thread. What the time does not suffice for is listed as not run. --only takes the runs
whose line (program, ranks, arguments) has the text in it. Nothing is passed on to NCCL except where
programs bring kernels of their own (-D).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather",
    "scatter", "sendrecv", "alltoallv", "hypercube",
)  # fmt: skip
REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter")
REGISTERED = ("all_reduce", "all_gather", "alltoall")  # first of those with -R
SIZES = ["-b", "8", "-e", "128M", "-f", "16", "-n", "20", "-w", "5"]
FEW = ["-b", "1", "-e", "16M", "-f", "4096", "-n", "2", "-w", "1"]
RUN_LIMIT_S = 40
TABLE_COLUMNS = 13
SHARE = re.compile(r"ends: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on")


@dataclass(frozen=True)
class Run:
    """One program with its arguments. Of those that are timed NCCL runs the same."""

    collective: str
    ranks_are: str
    arguments: tuple[str, ...]
    timed: bool = True

    @property
    def name(self) -> str:
        """What distinguishes it from others."""
        return f"{self.collective}_perf, {self.ranks_are}: {' '.join(self.arguments)}"

    @property
    def needs_nccl(self) -> bool:
        """Whether its kernels reach into memory that only NCCL makes."""
        return "-D" in self.arguments


def runs() -> Iterator[Run]:
    """All runs, what matters most first."""
    for collective in COLLECTIVES:
        yield Run(collective, "processes", tuple(SIZES))
    for collective in COLLECTIVES:
        yield Run(collective, "gpus of a thread", tuple(SIZES))
    for collective in COLLECTIVES:
        yield Run(collective, "threads", tuple(FEW), timed=False)
    every = ["-d", "all", "-o", "all"]
    for collective in REDUCTIONS:
        for ranks_are in ("processes", "gpus of a thread"):
            yield Run(collective, ranks_are, (*FEW, *every), timed=False)
    for collective in ("broadcast", "reduce", "gather", "scatter"):
        yield Run(collective, "processes", (*FEW, "-r", "all"), timed=False)
    for collective in COLLECTIVES:
        yield Run(collective, "processes", (*SIZES, "-G", "4"))
        yield Run(collective, "processes", (*FEW, "-u", "1"), timed=False)
    for register in ("1", "2"):
        for collective in REGISTERED:
            yield Run(collective, "processes", (*FEW, "-R", register), timed=False)
            yield Run(collective, "gpus of a thread", (*FEW, "-R", register), timed=False)
    for collective in ("all_reduce", "alltoall"):
        yield Run(collective, "processes", (*FEW, "-R", "2", "-D", "1"), timed=False)
    for collective in COLLECTIVES:
        yield Run(collective, "processes", (*FEW, "-d", "all"), timed=False)
    yield from untimed_runs()


def untimed_runs() -> Iterator[Run]:
    """What has been checked of some programs, or with ranks that are processes, of the rest."""
    for collective in COLLECTIVES:
        operators = ["-o", "all"] if collective in REDUCTIONS else []
        yield Run(collective, "threads", (*FEW, "-d", "all", *operators), timed=False)
    for collective in COLLECTIVES:
        yield Run(collective, "gpus of a thread", (*FEW, "-G", "4"), timed=False)
        yield Run(collective, "gpus of a thread", (*FEW, "-u", "1"), timed=False)
    for collective in COLLECTIVES:
        if collective in REGISTERED:
            continue
        for register in ("1", "2"):
            yield Run(collective, "processes", (*FEW, "-R", register), timed=False)
            yield Run(collective, "gpus of a thread", (*FEW, "-R", register), timed=False)


def command(programs: Path, run: Run, ranks: int, report: Path) -> list[str]:
    """What starts a run on this machine."""
    program = str(programs / f"{run.collective}_perf")
    own = [*run.arguments, "-c", "1", "-J", str(report)]
    if run.ranks_are == "processes":
        own_program = [f"{program}_mpi", *own]
        # Its own limit, since only mpirun can end the processes that it has started.
        mpirun = (
            f"mpirun --timeout {RUN_LIMIT_S} --allow-run-as-root --oversubscribe --bind-to none"
        )
        return [*mpirun.split(), "--mca", "plm", "isolated", "-np", str(ranks), *own_program]
    return [program, "-t" if run.ranks_are == "threads" else "-g", str(ranks), *own]


def execute(command_line: list[str], library: Path, fallback: str, report: Path) -> dict[str, Any]:
    """Runs it over the NCCL in `library`: rows by size, and what went wrong if something did."""
    env = {**os.environ, "LD_LIBRARY_PATH": f"{library.parent}:{os.environ['LD_LIBRARY_PATH']}"}
    env["SENNIT_NCCL_FALLBACK_LIB"] = fallback
    env.update(SENNIT_DEBUG="INFO", SENNIT_DEBUG_SUBSYS="nccl")
    try:
        done = subprocess.run(
            command_line,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=RUN_LIMIT_S + 10,
            check=False,
        )
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
        code, text = 124, output if isinstance(output, str) else output.decode(errors="replace")
    rows = []
    if code == 0 and report.exists():
        rows = json.loads(report.read_text(encoding="utf-8"))["results"]
    return {"code": code, "rows": rows, "output": text, "share": share(text)}


def share(text: str) -> dict[str, int]:
    """Calls and bytes, as the library counts them at the end of each communicator."""
    found = [tuple(map(int, numbers)) for numbers in SHARE.findall(text)]
    return {
        key: sum(numbers[i] for numbers in found)
        for i, key in enumerate(("calls", "bytes", "passed_on"))
    }


def ran_as_named(run: Run, answers: dict[str, Any]) -> bool:
    """Whether Sennit ran, or passed on what needs NCCL, in our run, and did nothing in NCCL's."""
    key = "passed_on" if run.needs_nccl else "calls"
    shares = {name: answer["share"] for name, answer in answers.items()}
    others = [share for name, share in shares.items() if name != "ours"]
    return shares["ours"][key] > 0 and not any(any(share.values()) for share in others)


def rows_that_are_wrong(text: str) -> Iterator[str]:
    """Those that report wrong elements.

    The table has size, count, type, operator and root, and for each place time, two bandwidths and
    the number of wrong elements.
    """
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == TABLE_COLUMNS and any(fields[i] not in ("0", "N/A") for i in (8, 12)):
            yield line


def wrong(rows: list[dict[str, Any]]) -> float:
    """Wrong elements of all rows, which programs do not count in place where they cannot run so."""
    places = [row.get(place) or {} for row in rows for place in ("out_of_place", "in_place")]
    return sum(float(place.get("nwrong") or 0) for place in places)


def times(rows: list[dict[str, Any]]) -> dict[int, float]:
    """Microseconds by bytes: out of place, or in place of a program that knows no other."""
    by_size = {}
    for row in rows:
        place = row.get("out_of_place") or row.get("in_place") or {}
        if "time" in place:
            by_size[int(row["size"])] = float(place["time"])
    return by_size


def compare(arguments: argparse.Namespace, run: Run, scratch: Path) -> dict[str, Any]:
    """The result of one run: whether it passed here, and both times of those that are timed."""
    answers = {}
    for name in ("ours", "nvidia") if run.timed else ("ours",):
        report = scratch / f"{name}.json"
        report.unlink(missing_ok=True)
        line = command(arguments.programs, run, arguments.ranks, report)
        fallback = str(arguments.nvidia) if run.needs_nccl else "none"
        answers[name] = execute(line, getattr(arguments, name), fallback, report)
    ours = answers["ours"]
    is_right = ours["code"] == 0 and bool(ours["rows"]) and wrong(ours["rows"]) == 0
    result = {
        "program": f"{run.collective}_perf",
        "ranks_are": run.ranks_are,
        "arguments": " ".join(run.arguments),
        "passed": is_right and ran_as_named(run, answers),
        "ran_as_named": ran_as_named(run, answers),
        "checked_rows": len(ours["rows"]),
        "ran_on_sennit": ours["share"],
    }
    if not result["passed"]:
        result["exit_code"] = ours["code"]
        result["wrong"] = wrong(ours["rows"])
        result["output"] = (
            "\n".join(rows_that_are_wrong(ours["output"]))[:1500] + (ours["output"][-1500:])
        )
    if run.timed:
        theirs = times(answers["nvidia"]["rows"])
        result["nvidia_passed"] = answers["nvidia"]["code"] == 0
        result["times"] = [
            {"bytes": size, "us": us, "nvidia_us": theirs.get(size)}
            for size, us in times(ours["rows"]).items()
        ]
    return result


def show(result: dict[str, Any]) -> None:
    """One line: what ran, whether it passed, NCCL's time over ours by size. More of what failed."""
    ratios = [
        f"{row['bytes']}:{row['nvidia_us'] / row['us']:.2f}"
        for row in result.get("times", [])
        if row["nvidia_us"] and row["us"]
    ]
    verdict = "passed" if result["passed"] else f"FAILED ({result['exit_code']})"
    print(
        f"{result['program']:20}{result['ranks_are']:18}{verdict:13}"
        f"{result['checked_rows']:4} rows  {result['arguments']}  {' '.join(ratios)}",
        flush=True,
    )
    for line in result.get("output", "").splitlines()[-4:]:
        print(f"    {line[:200]}", flush=True)


def main() -> None:
    """Runs what the time suffices for and writes one JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for option in ("--programs", "--ours", "--nvidia", "--out"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit-s", type=float, default=480)
    parser.add_argument("--only", action="append", help="text of the runs that are wanted")
    arguments = parser.parse_args()
    os.environ.setdefault("LD_LIBRARY_PATH", "")
    end = time.monotonic() + arguments.limit_s
    results: list[dict[str, Any]] = []
    not_run: list[str] = []
    has_mpirun = shutil.which("mpirun") is not None
    with tempfile.TemporaryDirectory() as folder:
        for run in runs():
            if arguments.only and not any(text in run.name for text in arguments.only):
                continue
            if run.ranks_are == "processes" and not has_mpirun:
                not_run.append(f"{run.name} (no mpirun)")
            elif time.monotonic() > end:
                not_run.append(f"{run.name} (out of time)")
            else:
                results.append(compare(arguments, run, Path(folder)))
                show(results[-1])
    passed = sum(result["passed"] for result in results)
    total = {
        key: sum(result["ran_on_sennit"][key] for result in results)
        for key in ("calls", "bytes", "passed_on")
    }
    print(f"{passed} of {len(results)} runs passed, {len(not_run)} not run; on Sennit ran {total}")
    document = {"runs": results, "ran_on_sennit": total, "not_run": not_run}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if passed == len(results) else 1)


if __name__ == "__main__":
    main()
