"""The C++ half of the backend: compiled for the PyTorch that is here, once, and then loaded."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import sennit
from sennit import Unsupported, compiled_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "sennit_torch"
_PACKAGE = Path(sennit.__file__).parent
_SOURCES = _PACKAGE / "share" / "sennit" / "torch"
_LOADING = threading.Lock()
_WAIT_S = 600.0
"""For another rank that compiles, on a machine that is busy with all of them."""


def load() -> Any:
    """The module.

    Raises:
        Unsupported: It cannot be compiled here; the text says what is missing.
    """
    with _LOADING:
        if _NAME not in sys.modules:
            library = _compiled()
            loader = importlib.machinery.ExtensionFileLoader(_NAME, str(library))
            spec = importlib.util.spec_from_loader(_NAME, loader)
            assert spec is not None
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
            sys.modules[_NAME] = module
    return sys.modules[_NAME]


def _compiled() -> Path:
    try:
        library = compiled_files.folder() / f"torch-{_key()}.so"
        if compiled_files.is_here(library):
            return library
        library.parent.mkdir(parents=True, exist_ok=True)
        with _alone(library.with_suffix(".lock")) as lock:
            if not library.exists():
                _compile(library, lock)
    except OSError as error:
        raise _missing(str(error), "set XDG_CACHE_HOME to a folder that can be written") from error
    return library


def _key() -> str:
    """All that the compiled file depends on; of the library its name, by which it is found."""
    found = hashlib.sha256()
    for file in [*sorted(_SOURCES.iterdir()), _PACKAGE / "include" / "sennit" / "sennit.h"]:
        found.update(file.read_bytes())
    folder = Path(torch.__file__).parent
    place = (folder, sys.version, _library().name.partition(".so")[0])
    found.update((torch.__version__ + "".join(map(str, place))).encode())
    return found.hexdigest()[:16]


def _library() -> Path:
    """The libsennit.so that this process has loaded."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    paths = (line.split(maxsplit=5)[-1] for line in lines if "/libsennit.so" in line)
    return Path(next(paths))


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[int]:
    """One process at a time; the system lets go of the lock of one that dies. Gives the lock."""
    until = time.monotonic() + _WAIT_S
    with file.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise _missing(
                        f"another process has held {file} for {_WAIT_S:g} s",
                        "end it, or delete the file",
                    ) from error
                time.sleep(0.05)
        yield lock.fileno()


def _compile(library: Path, lock: int) -> None:
    version = torch.__version__
    print(
        f"sennit: compiling the backend for PyTorch {version}, once; it takes about a minute",
        file=sys.stderr,
        flush=True,
    )
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        raise _missing(
            f"{header} is missing",
            f"install the headers of Python {sysconfig.get_python_version()} (Debian and Ubuntu: "
            "apt install python3-dev)",
        )
    unfinished = library.with_suffix(".unfinished")
    try:
        answer = subprocess.run(
            _command(unfinished),
            # A compiler that outlives its rank holds the lock until it ends.
            pass_fds=(lock,),
            input="".join(f'#include "{file.name}"\n' for file in sorted(_SOURCES.glob("*.cpp"))),
            capture_output=True,
            text=True,
            errors="backslashreplace",
            check=False,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise _missing(
            f"no folder of PATH ({os.environ.get('PATH', '')}) has a g++ that can be run",
            "install GCC 11 or later (Debian and Ubuntu: apt install g++)",
        ) from error
    if answer.returncode != 0:
        last = "\n".join(answer.stderr.splitlines()[-20:])
        raise _missing(
            f"g++ does not compile it with PyTorch {version}:\n{last}", "pip install torch==2.13.0"
        )
    compiled_files.finish(unfinished, library)


def _command(output: Path) -> list[str]:
    """Compiles the sources, which come as one text, since the headers take most of the time."""
    folder = Path(torch.__file__).parent
    headers = (
        folder / "include",
        folder / "include" / "torch" / "csrc" / "api" / "include",
        sysconfig.get_path("include"),
    )
    return [
        *("g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-Wshadow", "-fPIC", "-shared"),
        *("-fvisibility=hidden", "-x", "c++", "-"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(f"-I{_SOURCES}", f"-I{_PACKAGE / 'include'}"),
        *(word for header in headers for word in ("-isystem", str(header))),
        *("-o", str(output), "-x", "none", str(_library())),
        *(f"-L{folder / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"),
        f"-Wl,-rpath,{folder / 'lib'}",
    ]


def _missing(what: str, remedy: str) -> Unsupported:
    return Unsupported(f"the backend sennit of PyTorch cannot be compiled: {what}. Next: {remedy}")
