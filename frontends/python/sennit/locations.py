"""Where the files of this installation lie that other programs need."""

from __future__ import annotations

from pathlib import Path


def nccl_library() -> Path:
    """The library with the interface of NCCL, for LD_PRELOAD and the like (docs/nccl.md).

    Raises FileNotFoundError where the installation has none.
    """
    package = Path(__file__).parent
    # An installation, and the package inside a build tree.
    for place in (package / "lib", package.parents[1]):
        library = place / "nccl" / "libnccl.so.2"
        if library.is_file():
            return library
    raise FileNotFoundError(
        f"no nccl/libnccl.so.2 beside {package}: install the package anew (`make build`), or "
        "build the target sennit_nccl (docs/nccl.md)"
    )
