"""Buffers that a communicator knows before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sennit import _core


class Registration:
    """A buffer that a communicator knows; ends with `close()` or the end of a `with` block."""

    def __init__(self, handle: _core.Comm, buffer: _core.Buffer, symmetric: bool) -> None:
        """Register the buffer."""
        self._comm = handle
        self._buffer: _core.Buffer | None = buffer
        self._registration = handle.register(buffer, symmetric)

    def close(self) -> None:
        """End the registration; more than once is allowed."""
        if self._buffer is not None:
            self._buffer = None
            self._comm.deregister(self._registration)

    def __enter__(self) -> Registration:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the registration."""
        self.close()
