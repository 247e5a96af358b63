"""The MPIs that `make rivals` installs, and programs that run with the library before them."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sennit
from sennit.cli.rivals import mpi

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARE = re.compile(r"sennit: mpi: rank 0: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were")
CASES = (
    "program",
    "edges",
    "layouts",
    "mixing",
    "nonblocking",
    "operators",
    "persistent",
    "values",
)
"""Files of the program of cases, tests/mpi/program.c."""
ROUNDED = (
    "alltoall",
    "alltoall_of_pairs",
    "allgather",
    "allgatherv",
    "alltoallv",
    "alltoallw",
    "gather",
    "scatter",
)
EXACT = (
    "alltoall_of_ints",
    "alltoall_own",
    "alltoallw_of_several_types",
    "bcast",
    "ialltoallv",
)
"""Calls of tests/mpi/codecs.c by what a codec for all of them does to their values."""


@dataclasses.dataclass(frozen=True)
class Installed:
    """An MPI, and the test program compiled for it."""

    mpi: mpi.Mpi
    folder: Path
    suffix: str  # of the compilers' names

    def compile(self, output: str, *words: str | Path, compiler: str = "mpicc") -> Path:
        path = self.mpi.prefix / "bin" / f"{compiler}{self.suffix}"
        command = [path, "-O1", *words, "-o", self.folder / output]
        subprocess.run(command, check=True)
        return self.folder / output

    def compile_cases(self, *words: str | Path) -> None:
        """The program of cases, as "program"."""
        self.compile("program", *(HERE / f"{name}.c" for name in CASES), *words, "-lpthread")

    def compile_codecs(self) -> Path:
        """The program whose floats may travel with a codec."""
        return self.compile("codecs", HERE / "codecs.c", "-lm")

    def start(
        self,
        *program: str | Path,
        ranks: int = 2,
        preload: str = "",
        check: bool = True,
        timeout_s: int = 110,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program with the library, and what `preload` adds behind it, preloaded."""
        variables = {
            "LD_PRELOAD": f"{sennit.mpi_library()}{preload}",
            "SENNIT_MPI_STATS": "1",
            **(environment or {}),
        }
        words = [f"{name}={value}" for name, value in variables.items()]
        # Set by `env`, in the ranks alone: the launcher is no program for MPI.
        return subprocess.run(
            [*self.mpi.launcher(ranks), "env", *words, *map(str, program)],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=check,
        )


def installed_mpi(param: str, folder: Path) -> Installed:
    """One of mpi.NAMES; "mpich_abi": with programs that are compiled for the standard ABI."""
    name, _, abi = param.partition("_")
    variable = {"mpich": "SENNIT_MPICH_PREFIX", "openmpi": "SENNIT_OPENMPI_PREFIX"}[name]
    prefix = Path(os.environ.get(variable) or ROOT / ".rivals" / name)
    if not (prefix / "bin" / "mpiexec").exists():
        pytest.skip(f"mpi: needs {name} (make rivals)")
    suffix = f"_{abi}" if abi else ""
    if not (prefix / "bin" / f"mpicc{suffix}").exists():
        pytest.skip(f"mpi: needs an MPICH of the standard ABI, in {prefix} (make rivals)")
    return Installed(mpi.Mpi(name, prefix), folder, suffix)


def share_of(run: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """How many calls of rank 0 ran on the library, and how many were passed on."""
    found = SHARE.search(run.stderr)
    assert found, run.stderr
    return int(found[1]), int(found[3])


def kinds_of(run: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """What tests/mpi/codecs.c says of its calls: "exact", "rounded" or "wrong"."""
    return dict(line.split() for line in run.stdout.splitlines())
