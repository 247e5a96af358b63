"""Communicators: ranks that have joined, and the calls they make together."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from sennit import _core, calls
from sennit._core import Collective
from sennit.calls import Table, asked
from sennit.config import Config
from sennit.elements import PremulSum
from sennit.registration import Registration
from sennit.starter import Starter
from sennit.work import group, run, run_equal

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterable
    from types import TracebackType

    from sennit.rms_norm import RmsNorm
    from sennit.schedules import Schedule

_SETTLED_STATES = (0, 1)  # success, and still in progress: a communicator that has not failed


class Communicator:
    """Ranks that have joined. Made by `init`, `spawn`, `split` and `shrink`.

    Buffers of host ranks are NumPy arrays, objects with the buffer protocol (bytearray, memoryview,
    array) or with DLPack (tensors of PyTorch in host memory); those of GPU ranks are arrays in
    memory of their GPU with DLPack or __cuda_array_interface__ (PyTorch, CuPy, Numba, JAX), or in
    pinned host memory. They are C-contiguous: integers of 8 to 64 bits, bool, float16, bfloat16,
    float32, float64, float8_e4m3fn, float8_e5m2, complex64, complex128. Arrays of ml_dtypes are
    taken, too, and bits that `sennit.typed` names. They are used in place, never copied. An output
    that is not given is a new array: of NumPy on host ranks, of the library of x on GPU ranks.

    Operators are "sum", "prod", "min", "max", "avg", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor" and `sennit.premulsum(factor)`. Not every type has
    all of them; docs/numerics.md has the table, and what each computes. `reproducible` reduces in
    the order of ranks, so that the bits of the result depend on nothing but the inputs.

    Every call is made by all ranks in the same order, with the same count, type, operator and root.
    On host ranks it has ended when it returns. While it waits, the GIL is free and Ctrl-C works: it
    aborts the communicator and raises KeyboardInterrupt. On GPU ranks it is enqueued on `stream`,
    and nothing is synchronized: a stream of PyTorch, CuPy or Numba, an object with __cuda_stream__,
    or a number; None takes the current stream of the library that made the buffers.

    Further keywords of every call: `algorithm` names one instead of leaving the choice to the
    library, `schedule` brings one of your own (`sennit.schedules`), `deadline_s` limits this call
    (None: the communicator's deadline, 0: none).

    Every call raises:
        InvalidArgument: A buffer, count, root or name is wrong by itself.
        Unsupported: An element type or memory that this build does not move.
        Mismatch: The ranks do not make the same call, or bring different schedules.
        NotProved: The schedule has no proof; nothing was sent, and the communicator works on.
        RankFailed: Another rank died or gave up.
        DeadlineExceeded: The call did not end in time.
        Aborted: The communicator was aborted.

    Attributes:
        rank: Number of this rank, from 0.
        size: Number of ranks.
        device: "cpu", or the GPU of this rank, such as "cuda:0", as PyTorch writes it.
        name: Name in messages.
        start: The same calls without waiting: `comm.start.all_reduce(x)` gives a `Work`.
    """

    def __init__(self, handle: _core.Comm, name: str, config: _core.Config) -> None:
        """Wrap a handle; programs use `init` or `spawn`."""
        self._handle = handle
        self._config = config
        self.name = name
        self.rank = handle.rank
        self.size = handle.size
        self.device = "cpu" if handle.device < 0 else f"cuda:{handle.device}"
        self._group = calls.Group(handle, self.rank, self.size)
        self.start = Starter(self._group)

    def __repr__(self) -> str:
        """Name, rank and size."""
        return f"<sennit communicator {self.name!r}, rank {self.rank} of {self.size}>"

    @property
    def failed(self) -> bool:
        """Whether the communicator has failed or was aborted: no call can succeed any more."""
        return self._handle.state not in _SETTLED_STATES

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
    ) -> Any:
        """Combine the arrays of all ranks, element by element, and give the result to all.

        Args:
            x: This rank's contribution, any shape.
            out: As many elements as x; `out is x` is in place.
            op: See the class.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            reproducible: See the class.
            codec: See the class.
            stream: See the class.
            rms_norm: What becomes of the sum, on GPU ranks.

        Returns:
            `out`, of the shape of x where it was not given.
        """
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        if rms_norm is not None:
            options = rms_norm.added_to(options, x)
        return run_equal(self._handle, Collective.ALL_REDUCE, x, out, op, 0, options)

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
    ) -> Any:
        """Combine the arrays of all ranks, element by element, at the root.

        Args:
            x: This rank's contribution, any shape.
            out: At the root, as many elements as x; `out is x` is in place. Ignored elsewhere.
            op: See the class.
            root: The rank that gets the result.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            reproducible: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out` at the root, None elsewhere.
        """
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        return run_equal(self._handle, Collective.REDUCE, x, out, op, root, options)

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
    ) -> Any:
        """Overwrite x on every rank by the root's x; returns x."""
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run_equal(self._handle, Collective.BROADCAST, x, None, None, root, options)

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
    ) -> Any:
        """Give the arrays of all ranks to all.

        Args:
            x: This rank's part, any shape; `out[rank]` itself is in place.
            out: size times as many elements as x.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`, of shape (size, *x.shape) where it was not given: out[r] is the x of rank r.
        """
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run_equal(self._handle, Collective.ALL_GATHER, x, out, None, 0, options)

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
    ) -> Any:
        """Combine the arrays of all ranks, and give each rank its part of the result.

        Args:
            x: Contributions to all parts; its first axis is a multiple of size.
            out: 1/size of the elements of x; this rank's part of x itself is in place.
            op: See the class.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            reproducible: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`. Where it was not given: of shape s for an x of shape (size, *s), else of the
            shape of x with the first axis divided by size.
        """
        options = asked(algorithm, deadline_s, reproducible, schedule, codec, stream)
        return run_equal(self._handle, Collective.REDUCE_SCATTER, x, out, op, 0, options)

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
    ) -> Any:
        """Give part r of x to rank r, and get a part from every rank.

        Args:
            x: Its first axis is a multiple of size and is cut into size parts.
            out: As many elements as x; `out is x` is in place.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`, of the shape of x where it was not given: part r comes from rank r.
        """
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run_equal(self._handle, Collective.ALL_TO_ALL, x, out, None, 0, options)

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
    ) -> Any:
        """Give the arrays of all ranks to the root.

        Args:
            x: This rank's part, any shape.
            out: At the root, size times as many elements as x. Ignored elsewhere.
            root: The rank that gets the parts.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            At the root `out`, of shape (size, *x.shape) where it was not given; None elsewhere.
        """
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run_equal(self._handle, Collective.GATHER, x, out, None, root, options)

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
    ) -> Any:
        """Give part r of the root's x to rank r.

        Args:
            x: At the root, an array whose first axis is a multiple of size. Ignored elsewhere.
            out: 1/size of the elements of x. Needed on every rank but the root, which alone knows
                shape and type.
            root: The rank that has x.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`; shaped as by `reduce_scatter` where it was not given.
        """
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run_equal(self._handle, Collective.SCATTER, x, out, None, root, options)

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
    ) -> Any:
        """Give the arrays of all ranks to all; their lengths may differ.

        Args:
            x: This rank's part, of `counts[rank]` elements; its block of out itself is in place.
            counts: Elements of each rank's part, the same on all ranks.
            out: Holds the blocks; flat where it was not given.
            displacements: Where each block begins in out; None: one after the other.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`: block r is the x of rank r.
        """
        table = Table(counts, displacements)
        return run(
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
    ) -> Any:
        """Give block r of x to rank r, and get a block from every rank; lengths may differ.

        Args:
            x: Holds the blocks to send.
            send_counts: Elements for each rank, which expects as many from this one.
            recv_counts: Elements from each rank.
            out: Holds the blocks that arrive; flat where it was not given. Never in place.
            send_displacements: Where each block begins in x; None: one after the other.
            recv_displacements: Where each block begins in out; None: one after the other.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`: block r comes from rank r.
        """
        sent = Table(send_counts, send_displacements)
        received = Table(recv_counts, recv_displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run(calls.all_to_all_v(self._group, x, out, sent, received, options))

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
    ) -> Any:
        """Give the arrays of all ranks to the root; their lengths may differ.

        Args:
            x: This rank's part.
            counts: At the root, elements of each rank's part. Ignored elsewhere.
            out: At the root, holds the blocks. Ignored elsewhere.
            root: The rank that gets the parts.
            displacements: At the root, where each block begins in out; None: one after the other.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            At the root `out`, flat where it was not given; None elsewhere.
        """
        table = Table(counts, displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run(calls.gather_v(self._group, x, out, table, root, options))

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
    ) -> Any:
        """Give block r of the root's x to rank r; lengths may differ.

        Args:
            x: At the root, holds the blocks. Ignored elsewhere.
            counts: At the root, elements of each rank's block. Ignored elsewhere.
            out: As many elements as the rank's block. Needed on every rank but the root.
            root: The rank that has x.
            displacements: At the root, where each block begins in x; None: one after the other.
            algorithm: See the class.
            schedule: See the class.
            deadline_s: See the class.
            codec: See the class.
            stream: See the class.

        Returns:
            `out`; flat where it was not given.
        """
        table = Table(counts, displacements)
        options = asked(algorithm, deadline_s, False, schedule, codec, stream)
        return run(calls.scatter_v(self._group, x, out, table, root, options))

    def send(
        self,
        x: Any,
        peer: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> None:
        """Send x to the rank `peer`, whose recv has the same count and type; may wait for it.

        The k-th send of a tag matches the k-th recv of the tag. Tags are for host ranks.
        """
        options = asked(None, deadline_s, False, None, codec, stream, tag)
        run_equal(self._handle, Collective.SEND, x, None, None, peer, options)

    def recv(
        self,
        out: Any,
        peer: int,
        *,
        tag: int = 0,
        deadline_s: float | None = None,
        codec: str | None = None,
        stream: Any = None,
    ) -> Any:
        """Overwrite `out` by what the rank `peer` sends; returns `out`.

        With `sennit.ANY_RANK` as peer (host ranks) it is the first message of this tag from any
        other rank; `comm.start.recv` gives a `Work` whose `peer` says from which.
        """
        options = asked(None, deadline_s, False, None, codec, stream, tag)
        return run_equal(self._handle, Collective.RECV, None, out, None, peer, options)

    def barrier(
        self,
        *,
        algorithm: str | None = None,
        schedule: Schedule | None = None,
        deadline_s: float | None = None,
        stream: Any = None,
    ) -> None:
        """Wait until all ranks are in this call."""
        options = asked(algorithm, deadline_s, False, schedule, None, stream)
        run_equal(self._handle, Collective.BARRIER, None, None, None, 0, options)

    def group(self) -> contextlib.AbstractContextManager[None]:
        """Make the calls of a `with` block together; the same as `sennit.group()`."""
        return group()

    def split(self, color: int | None, key: int = 0, *, name: str = "") -> Communicator | None:
        """Form a communicator of the ranks that pass the same color; all ranks call it.

        Args:
            color: From 0; None for a rank that shall be in none.
            key: Ranks are ordered by key, then by their rank here.
            name: Of the new communicator; by default "<name>.<color>".

        Returns:
            The new communicator, None where color is None.
        """
        for what, number in (("color", color), ("key", key)):
            if number is not None and abs(operator.index(number)) > calls.LARGEST:
                raise _core.InvalidArgument(f"split: the {what} {number} has more than 32 bits")
        name = name or f"{self.name}.{color}"
        config = Config().core(name)
        handle = self._handle.split(-1 if color is None else color, key, config)
        return None if handle is None else Communicator(handle, name, config)

    def shrink(self, excluded: Iterable[int] = ()) -> Communicator:
        """Form a communicator without some ranks and without those known to be dead.

        Called by the remaining ranks; this communicator may have failed.

        Args:
            excluded: Ranks to leave out.
        """
        name = f"{self.name}.shrunk"
        config = Config().core(name)
        without = [operator.index(rank) for rank in excluded]
        for rank in without:
            if abs(rank) > calls.LARGEST:
                raise _core.InvalidArgument(f"shrink: {rank} is no rank")
        return Communicator(self._handle.shrink(without, config), name, config)

    def register(self, buffer: Any, *, symmetric: bool = False) -> Registration:
        """Say that the buffer will be used often, as long as the registration lives.

        Args:
            buffer: Memory that calls will receive in.
            symmetric: All ranks register buffers of this size, in the same order, and promise that
                an output that lies in one of them on some rank does so on all, at the same offset.
                Calls by copy engines then do not wait on the host for other ranks. All ranks end
                the registration between the same two calls.
        """
        known = _core.Buffer(buffer, "buffer", writable=False)
        return Registration(self._handle, known, symmetric)

    def abort(self) -> None:
        """End all waiting, here and on the other ranks, with `Aborted`.

        Any thread, any time; after `destroy()` it does nothing.
        """
        self._handle.abort()

    def destroy(self) -> None:
        """Leave and free. Needs no peer; more than once is allowed."""
        self._handle.destroy()

    def __enter__(self) -> Communicator:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Destroy the communicator."""
        self.destroy()
