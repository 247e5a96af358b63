"""Runs programs with FFTs between nodes of limited rate: by an MPI, and over Sennit with codecs.

    python bench/mpi/codec_programs.py --heffte BUILD --dns FILE --path DIR --out FILE.json

BUILD is where heFFTe was built for Open MPI, with FFTW (`cmake -DHeffte_ENABLE_FFTW=ON`, its
`speed3d_c2c`); FILE is `examples/spectral_dns_solver.py` of mpi4py-fft, and DIR what Python needs
for it: mpi4py-fft, mpi4py and NumPy (several: with colons). The programs are not changed. This
builds nothing.

tools/nodes.sh makes nodes of two ranks and two cards, as for bench/rails.py. Each program runs by
Open MPI over TCP, by Sennit without codec and with each of --codecs, in turns. A row has the time
of a step or transform, and what the program says of its error: heFFTe the largest one of a value
after --transforms there and back, of values up to 1; the solver that of its energy after ten steps,
relative to what the MPI computes. Rows of other rates in FILE.json remain.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import mpi

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
sys.path.append(str(HERE.parents[1] / "tools"))
import rails
import result_files

NODES = 2
# Programs compute: of real-time ranks that outnumber the cores, each would do so for a whole slice.
FORM = rails.FORMS["ob1"]._replace(before=("chrt", "--other", "0"))
CODECS = ("zfp:24", "q16", "zfp:16", "q8")
"""Those of float32; a program of float64 has zfp:32 in place of q8, which does not take it."""
SHARE = re.compile(r"sennit: mpi: rank 0: (\d+) calls of \d+ bytes ran on Sennit")
LIMIT_S = 300
# The solver checks its energy by an assertion, which codecs of few bits do not meet.
SOLVE = """
import sys
from mpi4py import MPI
scope = {"__name__": "__main__"}
try:
    exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), scope)
except AssertionError:
    pass
if MPI.COMM_WORLD.rank == 0:
    print("Steps =", scope["tstep"], "Energy =", repr(float(scope["k"])))
"""


@dataclass
class Program:
    """What is run, and what its output says."""

    name: str
    command: list[str]
    seconds: re.Pattern[str]
    parts: int  # steps or transforms in these seconds
    result: re.Pattern[str]
    is_error: bool  # the result is an error; else a value to compare
    codecs: tuple[str, ...] = CODECS


@dataclass
class Outcome:
    """Of one run: milliseconds a step, the result, and the calls of rank 0 that ran on Sennit."""

    ms: float
    result: float
    calls: int


def programs(arguments: argparse.Namespace) -> list[Program]:
    """Those whose files were named."""
    found = []
    for form in ("a2a", "a2av") if arguments.heffte else ():
        size = [str(arguments.size)] * 3
        words = ["fftw", "float", *size, f"-{form}", f"-nruns{arguments.transforms}"]
        found.append(
            Program(
                f"heFFTe, {arguments.size}^3 of complex64, -{form}",
                [str(arguments.heffte / "benchmarks/speed3d_c2c"), *words],
                re.compile(r"Time per run: ([0-9.e-]+) "),
                1,
                re.compile(r"Max error: +([0-9.e+-]+|-?nan)"),
                True,
            )
        )
    if arguments.dns:
        found.append(
            Program(
                "mpi4py-fft, Navier-Stokes, 64^3 of complex128",
                [sys.executable, "-c", SOLVE, str(arguments.dns)],
                re.compile(r"Time = ([0-9.e-]+)"),
                10,
                re.compile(r"Energy = ([0-9.e+-]+|nan)"),
                False,
                ("zfp:32", "zfp:24", "q16", "zfp:16"),
            )
        )
    return found


def variables_of(way: str, arguments: argparse.Namespace) -> list[str]:
    """What the ranks have in their environment: way "mpi", "none" or a codec."""
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": arguments.path}
    if way != "mpi":
        own |= {"LD_PRELOAD": str(sennit.mpi_library()), "SENNIT_MPI_STATS": "1"}
        own |= {"SENNIT_MPI_NODES": "sennit"}
    if way not in ("mpi", "none"):
        own["SENNIT_CODEC"] = f"all_to_all={way}"
    return [f"{name}={value}" for name, value in own.items()]


def run(program: Program, way: str, arguments: argparse.Namespace) -> Outcome:
    """One job."""
    (installed,) = mpi.find(["openmpi"])
    library = next((installed.prefix / "lib").glob("libmpi.so.*"))
    with tempfile.TemporaryDirectory() as folder:
        launcher = rails.launcher_of(FORM, installed, NODES, Path(folder))
        words = [f"MPI4PY_LIBMPI={library}", *variables_of(way, arguments)]
        answer = subprocess.run(
            ["timeout", str(LIMIT_S), *launcher, "env", *words, *program.command],
            capture_output=True,
            text=True,
            check=False,
        )
    output = answer.stdout + answer.stderr
    seconds, result = program.seconds.search(output), program.result.search(output)
    share = SHARE.search(output)
    calls = int(share[1]) if share else 0
    if seconds is None or result is None or (way != "mpi" and calls == 0):
        sys.exit(f"codec_programs.py: {program.name}, {way}: status {answer.returncode}\n{output}")
    return Outcome(1e3 * float(seconds[1]) / program.parts, float(result[1]), calls)


def rows_of(program: Program, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Of one program: a row without codec, and one for each."""
    codecs = arguments.codecs or program.codecs
    ways = ["mpi", "none", *codecs]
    outcomes: dict[str, list[Outcome]] = {way: [] for way in ways}
    before = os.getloadavg()[0]
    for index in range(arguments.rounds):
        for way in ways if index % 2 == 0 else reversed(ways):
            outcomes[way].append(run(program, way, arguments))
            print(program.name, way, outcomes[way][-1], flush=True)
    rival = [one.ms for one in outcomes["mpi"]]
    plain = outcomes["mpi"][0].result
    rows = []
    for way in ways[1:]:
        times = [one.ms for one in outcomes[way]]
        last = outcomes[way][-1]
        row: dict[str, Any] = {"program": program.name, "mbit": arguments.mbit}
        row |= {"nodes": NODES, "ranks": NODES * rails.RANKS, "codec": way}
        row |= {"rounds": arguments.rounds, "rival": "Open MPI over TCP"}
        row |= {"ms_a_step": statistics.median(times), "ms_range": [min(times), max(times)]}
        row |= {"rival_ms_a_step": statistics.median(rival)}
        row |= {"rival_ms_range": [min(rival), max(rival)]}
        row["ratio"] = row["rival_ms_a_step"] / row["ms_a_step"]
        row["error"] = last.result if program.is_error else abs(last.result - plain) / abs(plain)
        row |= {"rival_error": plain} if program.is_error else {}
        rows.append(row | {"calls": last.calls, "load": [before, os.getloadavg()[0]]})
    return rows


def key(row: dict[str, Any]) -> tuple[str, int, str]:
    """A file has one row of each."""
    return row["program"], row["mbit"], row["codec"]


def measure(arguments: argparse.Namespace) -> None:
    """In the namespaces."""
    rows = [row for program in programs(arguments) for row in rows_of(program, arguments)]
    if arguments.out.exists():
        new = {key(row) for row in rows}
        old = json.loads(arguments.out.read_text(encoding="utf-8"))["rows"]
        rows = [row for row in old if key(row) not in new] + rows
    whole = document(rows)
    program = {"schema": whole.pop("schema"), "program": "python bench/mpi/codec_programs.py"}
    result_files.write(arguments.out, program | whole)
    for row in rows:
        print(f"{row['program']:48}{row['mbit']:6} Mbit/s  {row['codec']:7}", end="")
        print(f"{row['ms_a_step']:9.1f} ms  ratio {row['ratio']:5.2f}  error {row['error']:.2g}")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--heffte", type=Path)
    parser.add_argument("--dns", type=Path)
    parser.add_argument("--path", default="", help="PYTHONPATH of the solver's ranks")
    parser.add_argument("--size", type=int, default=128, help="of heFFTe's cube")
    parser.add_argument("--transforms", type=int, default=5, help="of heFFTe, there and back")
    parser.add_argument("--mbit", type=int, default=rails.MBIT[NODES], help="rate of a card")
    parser.add_argument("--codecs", nargs="+", help="in place of those for the program's type")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.nodes, arguments.ranks = NODES, rails.RANKS
    (measure if arguments.inside else rails.enter)(arguments)


if __name__ == "__main__":
    main()
