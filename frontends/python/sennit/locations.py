"""Where the files of this installation lie that other programs need."""

from __future__ import annotations

from pathlib import Path


def nccl_library() -> Path:
    """The library with the interface of NCCL, for LD_PRELOAD and the like (docs/nccl.md).

    Raises FileNotFoundError where the installation has none.
    """
    return _library("nccl/libnccl.so.2", "sennit_nccl (docs/nccl.md)")


def mpi_library() -> Path:
    """The library that stands before an MPI, for LD_PRELOAD (docs/mpi.md).

    Raises FileNotFoundError where the installation has none.
    """
    return _library("mpi/libsennit_mpi.so", "sennit_mpi (docs/mpi.md)")


def _library(name: str, target: str) -> Path:
    package = Path(__file__).parent
    # An installation, and the package inside a build tree.
    for place in (package / "lib", package.parents[1]):
        library = place / name
        if library.is_file():
            return library
    raise FileNotFoundError(
        f"no {name} beside {package}: install the package anew (`make build`), or build the "
        f"target {target}"
    )
