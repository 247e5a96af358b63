"""Files that are compiled at first use, in a folder of the user; those not used for long go."""

from __future__ import annotations

import os
import time
from pathlib import Path

KEPT = 4
"""Of a kind: one for each PyTorch, Python and Sennit that somebody changes between."""

_LEFT_BEHIND_S = 3600.0
"""What is no library and so old belongs to nobody who still compiles."""


def folder() -> Path:
    """Where they are; it may not exist yet.

    Raises:
        FileNotFoundError: XDG_CACHE_HOME is not set, and the user has no home.
    """
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(named or Path.home() / ".cache") / "sennit"
    except RuntimeError as error:
        raise FileNotFoundError("the user has no home, and XDG_CACHE_HOME is not set") from error


def is_here(library: Path) -> bool:
    """Whether the file is there; it counts as used now."""
    try:
        os.utime(library)
    except FileNotFoundError:
        return False
    except OSError:
        return library.exists()  # in a folder that is only read
    return True


def finish(unfinished: Path, library: Path) -> None:
    """Give a compiled file its name, "KIND-KEY.so", and remove old ones of its kind.

    A process that has loaded a file keeps what it has loaded.
    """
    unfinished.replace(library)
    kind = library.name.partition("-")[0]
    files = {file: _last_use(file) for file in library.parent.glob(f"{kind}-*")}
    libraries = sorted((file for file in files if file.suffix == ".so"), key=lambda f: -files[f])
    kept = {file.stem for file in libraries[:KEPT]} | {library.stem}
    for file, last_use in files.items():
        is_left_behind = file.suffix != ".so" and time.time() - last_use > _LEFT_BEHIND_S
        if is_left_behind or (file.suffix == ".so" and file.stem not in kept):
            file.unlink(missing_ok=True)


def _last_use(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
