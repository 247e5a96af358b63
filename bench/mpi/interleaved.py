"""Times a program for MPI with the library before its MPI, next to the MPI itself.

    python bench/mpi/interleaved.py openmpi --out out/mpi-openmpi.json
    python bench/mpi/interleaved.py openmpi --nodes 2 --out out/mpi-nodes.json

One job calls both in turn (interleaved.c). The ratio of a row is the MPI's median by ours; the
machine should have nothing else to do, and `load` says how busy it was before and after. With
--nodes, ranks are on nodes that bench/rails.py describes, and Open MPI sends over TCP.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import mpi

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parents[1] / "tools"), str(HERE.parent)]
import rails
import result_files


def measure(installed: mpi.Mpi, arguments: argparse.Namespace) -> tuple[str, list[dict[str, Any]]]:
    """The version of the MPI, and the rows."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "interleaved"
        compiler = installed.prefix / "bin" / "mpicc"
        source = HERE / "interleaved.c"
        subprocess.run([compiler, "-O2", "-fPIE", source, "-o", program, "-ldl"], check=True)
        variables = [f"LD_PRELOAD={sennit.mpi_library()}", "SENNIT_MPI_NODES=sennit"]
        form = rails.FORMS[rails.TCP_FORMS[installed.name]]
        launcher = (
            rails.launcher_of(form, installed, arguments.nodes, Path(folder))
            if arguments.nodes > 1
            else installed.launcher(arguments.ranks)
        )
        command = [*launcher, "env", *variables, str(program), str(arguments.samples)]
        print("+", *command, file=sys.stderr)
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    lines = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    rows = [line | {"ratio": ratio(line)} for line in lines if "collective" in line]
    return next(line["mpi"] for line in lines if "mpi" in line), rows


def ratio(row: dict[str, Any]) -> float:
    """How many times as fast as the MPI."""
    return float(row["mpi_us"]["p50"] / row["time_us"]["p50"])


def report(rows: list[dict[str, Any]]) -> None:
    """Prints a line for each collective."""
    by_collective = defaultdict(list)
    for row in rows:
        by_collective[row["collective"]].append(row["ratio"])
    for collective, ratios in by_collective.items():
        mean = geometric_mean(ratios)
        print(f"{collective:15} {mean:5.2f} times as fast, the least {min(ratios):.2f}")


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mpi", choices=mpi.NAMES)
    parser.add_argument("--ranks", type=int, default=2, help="on one node")
    parser.add_argument("--nodes", type=int, choices=(1, *rails.MBIT), default=1)
    parser.add_argument("--samples", type=int, default=41)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.mbit = rails.MBIT.get(arguments.nodes)
    if arguments.nodes > 1 and not arguments.inside:
        rails.enter(arguments)
    (installed,) = mpi.find([arguments.mpi])
    before = os.getloadavg()[0]
    version, rows = measure(installed, arguments)
    where = f"--nodes {arguments.nodes}" if arguments.nodes > 1 else f"--ranks {arguments.ranks}"
    program = f"python bench/mpi/interleaved.py {arguments.mpi} {where}"
    whole = document(rows) | {"mpi": version, "load": [before, os.getloadavg()[0]]}
    if arguments.nodes > 1:
        whole |= {"nodes": arguments.nodes, "cards": rails.RANKS, "mbit": arguments.mbit}
    result_files.write(arguments.out, {"schema": whole.pop("schema"), "program": program} | whole)
    report(rows)


if __name__ == "__main__":
    main()
