"""Calls that do not wait: the methods of `Communicator.start`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sennit import calls
from sennit._core import Collective, prepare
from sennit.calls import Table, asked
from sennit.elements import PremulSum
from sennit.work import Work, start

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sennit.rms_norm import RmsNorm
    from sennit.schedules import Schedule


class Starter:
    """The calls of a communicator, each giving a `Work` at once.

    Arguments are those of the method of the same name of `Communicator`; what that returns is what
    `Work.wait()` returns. Do not write the input or use the output before the work has ended.
    """

    def __init__(self, group: calls.Group) -> None:
        """Start calls of this group of ranks."""
        self._handle = group.handle
        self._group = group

    def all_reduce(
        self,
        x: Any,
        out: Any = None,
        *,
        op: str | PremulSum = "sum",
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        reproducible: bool = False,
        codec: str | None = None,
        stream: Any = None,
        rms_norm: RmsNorm | None = None,
    ) -> Work:
        """Start an all_reduce."""
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        if rms_norm is not None:
            options = rms_norm.added_to(options, x)
        return start(prepare(self._handle, Collective.ALL_REDUCE, x, out, op, 0, options))

    def reduce(
        self,
        x: Any,
        out: Any = None,
        *,
        op: str | PremulSum = "sum",
        root: int = 0,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        reproducible: bool = False,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a reduce."""
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        return start(prepare(self._handle, Collective.REDUCE, x, out, op, root, options))

    def broadcast(
        self,
        x: Any,
        root: int = 0,
        *,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a broadcast."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(prepare(self._handle, Collective.BROADCAST, x, None, None, root, options))

    def all_gather(
        self,
        x: Any,
        out: Any = None,
        *,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start an all_gather."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(prepare(self._handle, Collective.ALL_GATHER, x, out, None, 0, options))

    def reduce_scatter(
        self,
        x: Any,
        out: Any = None,
        *,
        op: str | PremulSum = "sum",
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        reproducible: bool = False,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a reduce_scatter."""
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        return start(prepare(self._handle, Collective.REDUCE_SCATTER, x, out, op, 0, options))

    def all_to_all(
        self,
        x: Any,
        out: Any = None,
        *,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start an all_to_all."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(prepare(self._handle, Collective.ALL_TO_ALL, x, out, None, 0, options))

    def gather(
        self,
        x: Any,
        out: Any = None,
        *,
        root: int = 0,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a gather."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(prepare(self._handle, Collective.GATHER, x, out, None, root, options))

    def scatter(
        self,
        x: Any = None,
        out: Any = None,
        *,
        root: int = 0,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a scatter."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(prepare(self._handle, Collective.SCATTER, x, out, None, root, options))

    def all_gather_v(
        self,
        x: Any,
        counts: Iterable[int],
        out: Any = None,
        *,
        displacements: Iterable[int] | None = None,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start an all_gather_v."""
        table = Table(counts, displacements)
        return start(
            calls.all_gather_v(
                self._group,
                x,
                out,
                table,
                asked(algorithm, deadline_s, False, schedule, codec, stream),
            )
        )

    def all_to_all_v(
        self,
        x: Any,
        send_counts: Iterable[int],
        recv_counts: Iterable[int],
        out: Any = None,
        *,
        send_displacements: Iterable[int] | None = None,
        recv_displacements: Iterable[int] | None = None,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start an all_to_all_v."""
        sent = Table(send_counts, send_displacements)
        received = Table(recv_counts, recv_displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(calls.all_to_all_v(self._group, x, out, sent, received, options))

    def gather_v(
        self,
        x: Any,
        counts: Iterable[int] | None = None,
        out: Any = None,
        *,
        root: int = 0,
        displacements: Iterable[int] | None = None,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a gather_v."""
        table = Table(counts, displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(calls.gather_v(self._group, x, out, table, root, options))

    def scatter_v(
        self,
        x: Any = None,
        counts: Iterable[int] | None = None,
        out: Any = None,
        *,
        root: int = 0,
        displacements: Iterable[int] | None = None,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a scatter_v."""
        table = Table(counts, displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return start(calls.scatter_v(self._group, x, out, table, root, options))

    def send(
        self,
        x: Any,
        peer: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a send."""
        options = asked(None, deadline_s, False, None, codec, stream, tag)
        return start(prepare(self._handle, Collective.SEND, x, None, None, peer, options))

    def recv(
        self,
        out: Any,
        peer: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a recv; `peer` of the `Work` says who sent, also for `sennit.ANY_RANK`."""
        options = asked(None, deadline_s, False, None, codec, stream, tag)
        return start(prepare(self._handle, Collective.RECV, None, out, None, peer, options))

    def barrier(
        self,
        *,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        stream: Any = None,
    ) -> Work:
        """Start a barrier."""
        options = asked(algorithm, deadline_s, False, schedule, None, stream)
        return start(prepare(self._handle, Collective.BARRIER, None, None, None, 0, options))
