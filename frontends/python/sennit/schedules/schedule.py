"""Schedules whose structure is right, and what can be known of one and done with it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sennit import _core
from sennit._core import InvalidArgument, NotProved

if TYPE_CHECKING:
    from collections.abc import Callable


class Proof(NamedTuple):
    """What is known of a schedule that is right.

    Attributes:
        in_place: It also holds where output and input are the same memory; a rank that is in place
            works on a copy of its input otherwise.
        why_not_in_place: The first defect found in place, else empty.
        reproducible: It reduces all contributions in one step, in the order of ranks.
        slots: The slots of each channel with which it was proved; more change nothing.
        structure_hash: Of all that the proof depends on, in hexadecimal digits.
    """

    in_place: bool
    why_not_in_place: str
    reproducible: bool
    slots: int
    structure_hash: str


class Link(NamedTuple):
    """How a wire, an engine or a memory was used: bytes, and the part of the time it was busy."""

    name: str
    bandwidth_gbps: float
    bytes: float
    busy: float


class Simulation(NamedTuple):
    """The prediction for a described machine.

    Attributes:
        seconds: From the start of the call to the end of its last rank.
        tile_bytes: The tile that was used.
        paths: The paths that channels took.
        links: The 200 busiest links, the busiest first.
    """

    seconds: float
    tile_bytes: int
    paths: tuple[str, ...]
    links: tuple[Link, ...]


class Schedule:
    """A schedule whose structure is right. Made by `Builder.build`, `load`, `from_json`, `known`.

    Equal schedules are equal objects, also in other processes: pass one to `sennit.spawn`, pickle
    it, or save it and load it on each rank.

    Attributes:
        name: Name of the algorithm, as its author gave it.
        collective: What it does, such as "all_reduce".
        ranks: For how many ranks.
        root: For which root, 0 where there is none.
        algorithm: What a call names it by in this process; holds a hash of the whole schedule.
    """

    def __init__(self, text: str, file: str = "schedule", *, fuse: bool = False) -> None:
        """Read the JSON form; programs use `Builder.build`, `load` or `from_json`."""
        answer = _ask(_core.tool_schedule, schedule_text=text, schedule_file=file, fuse=fuse)
        self._json: dict[str, Any] = answer["json"]
        self.name: str = answer["name"]
        self.collective: str = answer["collective"]
        self.ranks: int = answer["ranks"]
        self.root: int = answer["root"]
        self.algorithm: str = answer["algorithm"]

    def to_json(self) -> dict[str, Any]:
        """The JSON form, which docs/schedule.md describes; a new object."""
        form: dict[str, Any] = json.loads(self._text())
        return form

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the JSON form to a file, which `load` and `sennit ... --schedule FILE` read."""
        Path(file).write_text(json.dumps(self._json, indent=1) + "\n", encoding="utf-8")

    def show(self) -> str:
        """The schedule as text: for each rank its lanes, for each lane its steps."""
        text: str = self._shown()["text"]
        return text

    def draw(self, file: str | os.PathLike[str]) -> None:
        """Draw a space-time diagram as an SVG file.

        Raises:
            InvalidArgument: It has more than 4096 steps.
        """
        svg = self._shown()["svg"]
        if svg is None:
            raise InvalidArgument(
                f"{self.name} on {self.ranks} ranks has more than 4096 steps, too many to draw; "
                "take fewer ranks"
            )
        Path(file).write_text(svg, encoding="utf-8")

    def verify(self) -> Proof:
        """Prove that it ends for every number of tiles, without races and with the right values.

        Raises:
            NotProved: It is wrong; the message names rank, lane, step and block of the defect that
                was found first.
        """
        proof = _ask(_core.tool_verify, **self._arguments())["proof"]
        if not proof["proved"]:
            raise NotProved(proof["why"])
        return Proof(*(proof[field] for field in Proof._fields))

    def simulate(
        self,
        machine: str | os.PathLike[str],
        bytes: int,
        *,
        tile_bytes: int | None = None,
        ranks_per_gpu: int | None = None,
        path: str | None = None,
        protocol: str | None = None,
        trace: str | os.PathLike[str] | None = None,
        picture: str | os.PathLike[str] | None = None,
    ) -> Simulation:
        """Predict how long it takes on a machine that need not be here; nothing is run.

        It is proved first: what has no proof has no time either.

        Args:
            machine: A name of `sennit machine --list`, or a file in the form of docs/machines.md (a
                name with a dot or a slash).
            bytes: Of the vector of broadcast, reduce and all_reduce; of one rank's part otherwise.
            tile_bytes: Of a block in one tile; None: by model.
            ranks_per_gpu: None: 1.
            path: For every channel that can take it, such as "nvlink" or "host".
            protocol: As GPU ranks run it, such as "slots"; None: by copy engines.
            trace: Write a timeline for ui.perfetto.dev to this file.
            picture: Draw the timeline to this SVG file.

        Raises:
            NotProved: It is wrong.
            InvalidArgument: The machine is not known, has no way between two ranks, or the timeline
                is too large.
        """
        answer = _ask(
            _core.tool_simulate,
            **self._arguments(),
            **machine_arguments(machine),
            bytes=bytes,
            tile_bytes=tile_bytes,
            ranks_per_gpu=ranks_per_gpu,
            path=path,
            protocol=protocol,
            timeline=True if trace is not None or picture is not None else None,
        )
        if trace is not None:
            Path(trace).write_text(json.dumps(answer["trace"]), encoding="utf-8")
        if picture is not None:
            if answer["svg"] is None:
                raise InvalidArgument(
                    f"{answer['steps']} steps are too many to draw; take larger tiles"
                )
            Path(picture).write_text(answer["svg"], encoding="utf-8")
        return Simulation(
            answer["seconds"],
            answer["tile_bytes"],
            tuple(answer["paths"]),
            tuple(Link(*(link[field] for field in Link._fields)) for link in answer["links"]),
        )

    def __repr__(self) -> str:
        """Name, collective and shape."""
        return f"<sennit schedule {self.collective} {self.name} of {self.ranks} ranks>"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same in everything."""
        return isinstance(other, Schedule) and self.algorithm == other.algorithm

    def __hash__(self) -> int:
        """By all that it is."""
        return hash(self.algorithm)

    def __reduce__(self) -> tuple[Callable[[str], Schedule], tuple[str]]:
        """Pickle the JSON form."""
        return from_json, (self._text(),)

    def _text(self) -> str:
        return json.dumps(self._json)

    def _arguments(self) -> dict[str, str]:
        return {"schedule_text": self._text(), "schedule_file": self.name}

    def _shown(self) -> dict[str, Any]:
        return _ask(_core.tool_show, **self._arguments())


def load(file: str | os.PathLike[str]) -> Schedule:
    """Read a schedule from a file that `Schedule.save` wrote, or "json" of `sennit show --json`.

    Raises:
        InvalidArgument: It is no schedule; the message begins with file and place.
        OSError: The file cannot be read.
    """
    return Schedule(Path(file).read_text(encoding="utf-8"), os.fspath(file))


def from_json(form: str | dict[str, Any]) -> Schedule:
    """Make a schedule of its JSON form, a text or what `Schedule.to_json` gives.

    Raises:
        InvalidArgument: It is no schedule; the message says where.
    """
    return Schedule(form if isinstance(form, str) else json.dumps(form))


def known(collective: str, algorithm: str, ranks: int, *, root: int | None = None) -> Schedule:
    """The library's own schedule of an algorithm of docs/algorithms.md, to look at or to change.

    Raises:
        InvalidArgument: There is no such collective or algorithm, or the root is no rank.
        Unsupported: The algorithm does not run so many ranks.
    """
    answer = _ask(
        _core.tool_show, collective=collective, algorithm=algorithm, ranks=ranks, root=root
    )
    return from_json(answer["json"])


def machine_arguments(machine: str | os.PathLike[str]) -> dict[str, str]:
    """The arguments of the library's functions for a machine of the catalogue, or of a file."""
    name = os.fspath(machine)
    if not Path(name).suffix and "/" not in name:
        return {"machine": name}
    return {"machine_text": Path(name).read_text(encoding="utf-8"), "machine_file": name}


def _ask(tool: Callable[[str], str], **request: Any) -> dict[str, Any]:
    """A function of the library that takes and gives JSON; arguments that are None are left out."""
    given = {key: value for key, value in request.items() if value is not None}
    answer: dict[str, Any] = json.loads(tool(json.dumps(given)))
    return answer
