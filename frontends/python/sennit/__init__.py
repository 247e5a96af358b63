"""Sennit: collective communication between the ranks of one machine or several.

Start the ranks, join them, call::

    import numpy as np
    import sennit

    def main(comm: sennit.Communicator) -> float:
        x = np.full(1024, comm.rank, dtype=np.float32)
        return float(comm.all_reduce(x)[0])

    if __name__ == "__main__":
        print(sennit.spawn(main, 4))  # [6.0, 6.0, 6.0, 6.0]

Under a launcher (torchrun, mpirun, srun) each process calls `sennit.init()` instead.

Threads: different communicators may be used from different threads at any time; one communicator
from one thread at a time, except `abort()`. Groups belong to the thread that opens them.
"""

from typing import TYPE_CHECKING, Any

from sennit import codecs
from sennit._core import (
    ANY_RANK,
    Aborted,
    DeadlineExceeded,
    Error,
    InProgress,
    InternalError,
    InvalidArgument,
    InvalidUsage,
    JoinTimeout,
    Mismatch,
    NotProved,
    RankFailed,
    SystemFailure,
    Unsupported,
    version_string,
)
from sennit.communicator import Communicator
from sennit.config import Config
from sennit.elements import PremulSum, Typed, premulsum, typed
from sennit.joining import init
from sennit.locations import mpi_library, nccl_library
from sennit.registration import Registration
from sennit.rms_norm import RmsNorm
from sennit.spawning import spawn
from sennit.work import Work, group

if TYPE_CHECKING:
    from sennit import schedules

__version__ = version_string()

__all__ = [
    "ANY_RANK",
    "Aborted",
    "Communicator",
    "Config",
    "DeadlineExceeded",
    "Error",
    "InProgress",
    "InternalError",
    "InvalidArgument",
    "InvalidUsage",
    "JoinTimeout",
    "Mismatch",
    "NotProved",
    "PremulSum",
    "RankFailed",
    "Registration",
    "RmsNorm",
    "SystemFailure",
    "Typed",
    "Unsupported",
    "Work",
    "__version__",
    "codecs",
    "group",
    "init",
    "mpi_library",
    "nccl_library",
    "premulsum",
    "schedules",
    "spawn",
    "typed",
]


def __getattr__(name: str) -> Any:
    """Import `sennit.schedules` when it is first asked for: most programs have none."""
    if name == "schedules":
        import importlib

        return importlib.import_module("sennit.schedules")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
