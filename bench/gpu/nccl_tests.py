"""Runs NVIDIA's nccl-tests over this library and over NCCL, and tells what passed and how fast.

    python3 bench/gpu/nccl_tests.py --programs DIR --ours LIB --nvidia LIB --out FILE [--ranks N]
        [--limit-s S]

The ranks are processes under mpirun (programs of the name X_perf_mpi), threads of one process, and
GPUs of one thread. What the time does not suffice for is listed as not run.
"""

from __future__ import annotations

import argparse
import json
import os
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
SIZES = ["-b", "8", "-e", "128M", "-f", "16", "-n", "20", "-w", "5"]
FEW = ["-b", "1", "-e", "16M", "-f", "4096", "-n", "2", "-w", "1"]
RUN_LIMIT_S = 40


@dataclass(frozen=True)
class Run:
    """One program with its arguments. Of those that are timed NCCL runs the same."""

    collective: str
    ranks_are: str
    arguments: tuple[str, ...]
    timed: bool = True


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
        for collective in ("all_reduce", "all_gather", "alltoall"):
            yield Run(collective, "processes", (*FEW, "-R", register), timed=False)


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


def execute(command_line: list[str], library: Path, report: Path) -> dict[str, Any]:
    """Runs it over the NCCL in `library`: rows by size, and what went wrong if something did."""
    env = {**os.environ, "LD_LIBRARY_PATH": f"{library.parent}:{os.environ['LD_LIBRARY_PATH']}"}
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
    return {"code": code, "rows": rows, "output": text}


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
        answers[name] = execute(line, getattr(arguments, name), report)
    ours = answers["ours"]
    result = {
        "program": f"{run.collective}_perf",
        "ranks_are": run.ranks_are,
        "arguments": " ".join(run.arguments),
        "passed": ours["code"] == 0 and bool(ours["rows"]) and wrong(ours["rows"]) == 0,
        "checked_rows": len(ours["rows"]),
    }
    if not result["passed"]:
        result["exit_code"] = ours["code"]
        result["wrong"] = wrong(ours["rows"])
        result["output"] = ours["output"][-1500:]
    if run.timed:
        theirs = times(answers["nvidia"]["rows"])
        result["nvidia_passed"] = answers["nvidia"]["code"] == 0
        result["times"] = [
            {"bytes": size, "us": us, "nvidia_us": theirs.get(size)}
            for size, us in times(ours["rows"]).items()
        ]
    return result


def show(result: dict[str, Any]) -> None:
    """One line: what ran, whether it passed, NCCL's time over ours by size."""
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


def main() -> None:
    """Runs what the time suffices for and writes one JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for option in ("--programs", "--ours", "--nvidia", "--out"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit-s", type=float, default=480)
    arguments = parser.parse_args()
    os.environ.setdefault("LD_LIBRARY_PATH", "")
    end = time.monotonic() + arguments.limit_s
    results: list[dict[str, Any]] = []
    not_run: list[str] = []
    has_mpirun = shutil.which("mpirun") is not None
    with tempfile.TemporaryDirectory() as folder:
        for run in runs():
            name = f"{run.collective}_perf, {run.ranks_are}: {' '.join(run.arguments)}"
            if run.ranks_are == "processes" and not has_mpirun:
                not_run.append(f"{name} (no mpirun)")
            elif time.monotonic() > end:
                not_run.append(f"{name} (out of time)")
            else:
                results.append(compare(arguments, run, Path(folder)))
                show(results[-1])
    passed = sum(result["passed"] for result in results)
    print(f"{passed} of {len(results)} runs passed, {len(not_run)} not run")
    document = {"runs": results, "not_run": not_run}
    arguments.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if passed == len(results) else 1)


if __name__ == "__main__":
    main()
