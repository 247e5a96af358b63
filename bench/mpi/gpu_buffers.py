"""Times a program for MPI whose buffers are in GPU memory: with the library, copied by hand, in C.

    python bench/mpi/gpu_buffers.py mpich --out out/mpi-gpu.json

gpu_buffers.c says what is timed. A row's `by_hand` is how many times as fast as that the program
is, `over_call_us` what the library for MPI takes more than a call in C. It needs a GPU a rank.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import sennit
from sennit.cli.bench_document import document
from sennit.cli.rivals import mpi

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tools"))
import result_files


def measure(installed: mpi.Mpi, ranks: int, samples: int) -> tuple[str, list[dict[str, Any]]]:
    """The version of the MPI, and the rows."""
    front = Path(sennit.mpi_library())
    library = front.parent.parent / "libsennit.so"
    include = HERE.parents[1] / "include"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "gpu_buffers"
        compiler = installed.prefix / "bin" / "mpicc"
        words = ("-O2", "-fPIE", f"-I{include}", HERE / "gpu_buffers.c", "-o", program, "-ldl")
        subprocess.run([compiler, *words], check=True)
        variables = (f"LD_PRELOAD={front}", "SENNIT_MPI_STATS=1")
        command = [*installed.launcher(ranks), "env", *variables, str(program), str(library)]
        print("+", *command, samples, file=sys.stderr)
        answer = subprocess.run(
            [*command, str(samples)], check=True, stdout=subprocess.PIPE, text=True
        )
    lines = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    rows = [line | compared(line) for line in lines if "collective" in line]
    return next(line["mpi"] for line in lines if "mpi" in line), rows


def compared(row: dict[str, Any]) -> dict[str, float]:
    """The medians of a row, compared."""
    ours, by_hand, in_c = (row[name]["p50"] for name in ("time_us", "hand_us", "call_us"))
    return {"by_hand": by_hand / ours, "over_call_us": ours - in_c}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mpi", choices=mpi.NAMES)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--samples", type=int, default=21)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    (installed,) = mpi.find([arguments.mpi])
    version, rows = measure(installed, arguments.ranks, arguments.samples)
    program = f"python bench/mpi/gpu_buffers.py {arguments.mpi} --ranks {arguments.ranks}"
    whole = document(rows) | {"mpi": version}
    result_files.write(arguments.out, {"schema": whole.pop("schema"), "program": program} | whole)
    for row in rows:
        print(
            f"{row['collective']:11} {row['bytes']:9} B  {row['time_us']['p50']:9.1f} us, "
            f"{row['by_hand']:5.1f} times by hand, {row['over_call_us']:+6.2f} us over a call in C"
        )


if __name__ == "__main__":
    main()
