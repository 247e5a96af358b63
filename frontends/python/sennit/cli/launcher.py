"""Whether this process is one rank of a job that a launcher started."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Mapping


class Place(NamedTuple):
    """Rank and size that the launcher gave to this process."""

    rank: int
    size: int
    launcher: str


# The order in which the library itself looks. The variables after rank and size must be there too:
# a batch script of Slurm, say, has the first two without being a rank of anything.
_LAUNCHERS = (
    ("environment", "SENNIT_RANK", "SENNIT_SIZE", ("SENNIT_KEY",)),
    ("torchrun", "RANK", "WORLD_SIZE", ("MASTER_ADDR", "MASTER_PORT")),
    ("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("PMIX_NAMESPACE",)),
    ("mpiexec", "PMI_RANK", "PMI_SIZE", ()),
    ("srun", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
)


def place_in_job(environment: Mapping[str, str]) -> Place | None:
    """The place in a launcher's job; None for a process that nobody launched as a rank.

    A job of one rank is most often a shell that a launcher started, such as that of `srun --pty`: a
    process there has no ranks to join, and may start its own.

    Raises:
        click.UsageError: The variables are there and are no numbers.
    """
    for launcher, rank, size, further in _LAUNCHERS:
        # One that is empty counts as not set, as in the library.
        if all(environment.get(name) for name in (rank, size, *further)):
            if not (environment[rank].isdecimal() and environment[size].isdecimal()):
                raise click.UsageError(
                    f"{rank}={environment[rank]} and {size}={environment[size]} are no place in a "
                    f"job of {launcher}"
                )
            place = Place(int(environment[rank]), int(environment[size]), launcher)
            return place if place.size > 1 else None
    return None
