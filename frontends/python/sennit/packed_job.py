"""A job on its way to new processes, which have to import what it names."""

from __future__ import annotations

import io
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sennit import _core

if TYPE_CHECKING:
    from sennit.rank_job import Job

_ADVICE = "or pass threads=True, which makes ranks of threads and imports nothing"


class PackedJob:
    """A job that is pickled when a process starts.

    The process reads it by `unpack`, not as it begins: so it can report what it could not read.
    """

    def __init__(self, job: Job) -> None:
        """Wrap the job."""
        self._job: Job | bytes = job

    def __getstate__(self) -> bytes:
        """The job as bytes; locks and queues of multiprocessing allow it while a process starts."""
        assert not isinstance(self._job, bytes)
        stream = io.BytesIO()
        _Pickler(stream).dump(self._job)
        _check_main()
        return stream.getvalue()

    def __setstate__(self, state: bytes) -> None:
        """Keep the bytes."""
        self._job = state

    def unpack(self) -> Job:
        """The job, in the new process."""
        assert isinstance(self._job, bytes)
        job: Job = pickle.loads(self._job)
        return job


class _Pickler(ForkingPickler):
    """Copies everything, and refuses what new processes cannot import."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream)
        # PyTorch's reducers put tensors into memory that all processes share: ranks would add up
        # in each other's buffers. Without them tensors are copied.
        self.dispatch_table = {
            kind: reducer
            for kind, reducer in self.dispatch_table.items()
            if not getattr(reducer, "__module__", "").startswith("torch.")
        }

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and type(obj) not in self.dispatch_table:
            _check_importable(obj)
        return NotImplemented


def _check_main() -> None:
    """Refuse a main module that new processes would run and cannot find, whatever the job names."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if main.__spec__ is None and file is not None and not Path(file).exists():
        raise _core.InvalidUsage(
            f"new processes cannot run {file}, from which this program comes. Save it as a file, "
            f"{_ADVICE}"
        )


def _check_importable(thing: FunctionType | type) -> None:
    name = thing.__qualname__
    if thing.__module__ == "__main__" and not _main_is_imported():
        raise _core.InvalidUsage(
            f"new processes cannot import {name}: this program came from no file (but from "
            f"standard input, -c, a notebook or a __main__.py). Put {name} into a module, {_ADVICE}"
        )
    found: Any = sys.modules.get(thing.__module__)
    if found is None or thing.__module__ == "builtins":
        return  # pickle knows of names that are not there, such as NoneType
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not thing:
        raise _core.InvalidUsage(
            f"new processes cannot import {name}: module {thing.__module__} does not have it under "
            f"this name. Define it at the top level of a module, {_ADVICE}"
        )


def _main_is_imported() -> bool:
    """Whether multiprocessing lets new processes run the main module's file."""
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    if name is not None:
        return name != "__main__" and not name.endswith(".__main__")
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).exists()
