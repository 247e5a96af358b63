"""Builder: how a program writes a schedule."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from typing import TYPE_CHECKING, Any

from sennit._core import InvalidArgument
from sennit.schedules.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SCHEMA = 1


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of a rank's input, output or scratch, such as `b.input[2]`."""

    buffer: str
    index: int


@dataclasses.dataclass(frozen=True)
class Buffer:
    """What blocks are taken from: `buffer[2]` is a block, `buffer[0:3]` are three."""

    name: str

    def __getitem__(self, index: int | slice) -> Any:
        """Give a block, or a tuple of blocks for a slice that says where it ends."""
        if isinstance(index, int):
            return Block(self.name, index)
        if index.stop is None:
            raise InvalidArgument(f"{self.name}[...:] has no end; write {self.name}[0:count]")
        steps = range(index.start or 0, index.stop, index.step or 1)
        return tuple(Block(self.name, step) for step in steps)


@dataclasses.dataclass(frozen=True)
class Lane:
    """A list of steps of one rank, which run one after the other."""

    rank: int
    index: int


@dataclasses.dataclass(frozen=True)
class Channel:
    """A FIFO of messages from one lane to a lane of another rank, or of several."""

    index: int


@dataclasses.dataclass(frozen=True)
class Step:
    """Where a step stands, for `after`."""

    lane: Lane
    index: int


Blocks = Block | tuple[Block, ...] | list[Block]
Channels = Channel | tuple[Channel, ...] | list[Channel]
Steps = Step | tuple[Step, ...] | list[Step]


class Builder:
    """Writes a schedule step by step. Nothing is checked but ranks before `build`.

    Each step is appended to its lane, and its method gives where it stands, for `after` of other
    steps of the same rank. Arguments of steps, with the words of docs/schedule.md:

    - `blocks` (`from`) is what the step reads, `to` what it writes: a block such as `b.input[0]`,
      or a tuple of blocks such as `b.output[0:3]`, which are one message.
    - `source` (`in`) are the channels whose next message it takes, `out` those that it sends on.
    - `order` puts the operands of a reduction in another order, first to last.
    - `after` are steps of other lanes of this rank that must have finished the same tile.

    Attributes:
        input: The rank's input blocks: `b.input[0]`, `b.input[0:3]`.
        output: Its output blocks.
        ranks: Number of ranks.
    """

    def __init__(
        self, name: str, collective: str, ranks: int, *, root: int = 0, cut: int | None = None
    ) -> None:
        """Begin a schedule without lanes.

        Args:
            name: Of the algorithm, one word.
            collective: "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
                "all_to_all", "gather", "scatter" or "barrier".
            ranks: Number of ranks.
            root: Root of a rooted collective.
            cut: Blocks of the vector of all_reduce, reduce and broadcast; None: 1, the vector is
                moved whole. The other collectives have a block for each rank.
        """
        self.input = Buffer("input")
        self.output = Buffer("output")
        self.ranks = ranks
        self._name = name
        self._form: dict[str, Any] = {
            "schema": _SCHEMA,
            "collective": collective,
            "algorithm": name,
            "ranks": ranks,
            "root": root,
            "cut": 1 if cut is None else cut,
            "scratch": [],
            "channels": [],
            "programs": [[] for _ in range(ranks)],
        }
        # Where the author wrote them, for messages: steps by (rank, lane, step), and channels.
        self._written: dict[tuple[int, ...], str] = {}

    def lane(self, rank: int, need: str = "reduce") -> Lane:
        """Add a lane to a rank: a list of steps that overlaps with the rank's other lanes.

        Args:
            rank: The rank.
            need: "reduce", or "move" for a lane that reduces nothing.
        """
        if not 0 <= rank < self.ranks:
            raise InvalidArgument(f"{self._name}: a lane of rank {rank}: {self._what_ranks_are()}")
        lanes = self._form["programs"][rank]
        lanes.append({"need": need, "steps": []})
        return Lane(rank, len(lanes) - 1)

    def lanes(self, need: str = "reduce") -> list[Lane]:
        """Add a lane to every rank; gives them by rank."""
        return [self.lane(rank, need) for rank in range(self.ranks)]

    def scratch(self, name: str, blocks: int, *, depth: int = 1) -> Buffer:
        """Give every rank memory for the time of the call; `scratch[0]` is its first block.

        Args:
            name: One word.
            blocks: Number of blocks; block k is as long as block k of the problem.
            depth: Tile t uses instance t mod depth, so that so many tiles may be under way.
        """
        self._form["scratch"].append(
            {"name": name, "blocks": blocks, "depth": depth, "place": "device"}
        )
        return Buffer(name)

    def channel(self, writer: Lane, *readers: Lane, single_hop: bool = False) -> Channel:
        """Add a channel from a lane to a lane of another rank, or to lanes of several ranks.

        Args:
            writer: The lane that sends.
            *readers: The lanes that each get every message.
            single_hop: Every block goes straight from its owner to its final place, so both ends
                know its length.
        """
        form: dict[str, Any] = {
            "writer": [writer.rank, writer.index],
            "readers": [[reader.rank, reader.index] for reader in readers],
        }
        if single_hop:
            form["single_hop"] = True
        channels = self._form["channels"]
        channels.append(form)
        self._written[(len(channels) - 1,)] = _caller()
        return Channel(len(channels) - 1)

    def send(self, lane: Lane, blocks: Blocks, out: Channels, *, after: Steps = ()) -> Step:
        """Send blocks as one message: `blocks` -> `out`."""
        return self._add(lane, "send", blocks=blocks, out=out, after=after)

    def recv(
        self, lane: Lane, source: Channel, to: Blocks = (), out: Channels = (), *, after: Steps = ()
    ) -> Step:
        """Take a message, store it, pass it on: `source` -> `to` and `out`, one of them or both."""
        return self._add(lane, "recv", source=source, to=to, out=out, after=after)

    def recv_reduce(
        self,
        lane: Lane,
        source: Channels,
        blocks: Blocks = (),
        to: Blocks = (),
        out: Channels = (),
        *,
        order: Sequence[int] = (),
        after: Steps = (),
    ) -> Step:
        """Reduce blocks and messages: `blocks` (if any), then `source` -> `to` and `out`."""
        return self._add(
            lane,
            "recv_reduce",
            blocks=blocks,
            source=source,
            to=to,
            out=out,
            order=order,
            after=after,
        )

    def copy(self, lane: Lane, blocks: Blocks, to: Blocks, *, after: Steps = ()) -> Step:
        """Copy blocks of this rank: `blocks` -> `to`."""
        return self._add(lane, "copy", blocks=blocks, to=to, after=after)

    def reduce(
        self,
        lane: Lane,
        blocks: Blocks,
        to: Blocks,
        out: Channels = (),
        *,
        order: Sequence[int] = (),
        after: Steps = (),
    ) -> Step:
        """Reduce blocks of this rank: m times as many `blocks` as `to` has -> `to` and `out`."""
        return self._add(lane, "reduce", blocks=blocks, to=to, out=out, order=order, after=after)

    def token(
        self, lane: Lane, source: Channels = (), out: Channels = (), *, after: Steps = ()
    ) -> Step:
        """Take and send messages without data."""
        return self._add(lane, "token", source=source, out=out, after=after)

    def build(self, *, fuse: bool = True) -> Schedule:
        """End the writing and check the structure; what is right in structure may still be wrong.

        Args:
            fuse: Join a recv and the send of the same block to one step, as the library does with
                its own algorithms. `Schedule.show` prints the result, and that is what runs.

        Raises:
            InvalidArgument: The structure is wrong: a rank, lane, channel or block that is not
                there, a step with lists that its kind cannot have, a channel whose ends count
                different messages. The message names the place, and the line that wrote it.
        """
        try:
            return Schedule(json.dumps(self._form), self._name, fuse=fuse)
        except InvalidArgument as error:
            raise InvalidArgument(self._with_line(str(error))) from None

    def _add(
        self,
        lane: Lane,
        kind: str,
        *,
        blocks: Blocks = (),
        source: Channels = (),
        to: Blocks = (),
        out: Channels = (),
        order: Sequence[int] = (),
        after: Steps = (),
    ) -> Step:
        try:
            steps = self._form["programs"][lane.rank][lane.index]["steps"]
        except IndexError:
            raise InvalidArgument(f"{self._name}: {lane} is of another builder") from None
        fields = {
            "from": [[block.buffer, block.index] for block in _list(blocks, Block)],
            "to": [[block.buffer, block.index] for block in _list(to, Block)],
            "in": [channel.index for channel in _list(source, Channel)],
            "out": [channel.index for channel in _list(out, Channel)],
            "order": list(order),
            "after": [[step.lane.index, step.index] for step in _list(after, Step)],
        }
        steps.append({"kind": kind, **{key: value for key, value in fields.items() if value}})
        where = (lane.rank, lane.index, len(steps) - 1)
        self._written[where] = _caller()
        return Step(lane, where[2])

    def _what_ranks_are(self) -> str:
        return f"the ranks are 0 to {self.ranks - 1}"

    def _with_line(self, message: str) -> str:
        """The message and the line of the program that wrote what it speaks of."""
        for pattern in (
            r"\brank (\d+) lane (\d+) step (\d+)",
            r"\bprograms\[(\d+)\]\[(\d+)\]\.steps\[(\d+)\]",
            r"\bchannels?[ \[](\d+)",
        ):
            match = re.search(pattern, message)
            line = match and self._written.get(tuple(int(number) for number in match.groups()))
            if line:
                return f"{message} (written at {line})"
        return message


def _list(items: Any, kind: type) -> Iterable[Any]:
    """One item or several, each of this kind."""
    listed = [items] if isinstance(items, kind) else list(items)
    for item in listed:
        if not isinstance(item, kind):
            raise InvalidArgument(f"{item!r} stands where a {kind.__name__} is expected")
    return listed


def _caller() -> str:
    """The line of the program that called this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
