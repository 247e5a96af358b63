"""The calls of a program one by one, which src/capi/call_trace.cpp writes, as a timeline."""

from __future__ import annotations

import dataclasses
import struct
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_EVENT = struct.Struct("<8s3Q2I4i48s32s24s96s")
_MAGIC = b"SNTCALL\0"
_NANOSECONDS_PER_MICROSECOND = 1000.0


@dataclasses.dataclass(frozen=True)
class Event:
    """One call; ranks are -1, and texts empty, where they are not known."""

    begin_ns: int
    end_ns: int
    bytes: int
    pid: int
    thread: int
    rank: int
    size: int
    rank_in_job: int
    job_size: int
    name: str
    algorithm: str
    paths: str
    why: str


def read_events(folder: Path) -> list[Event]:
    """Read the calls of all files of a folder, in the order in which they began."""
    events = []
    for file in folder.glob("trace-*"):
        content = file.read_bytes()
        whole = len(content) - len(content) % _EVENT.size  # a process may have been killed
        for magic, *numbers, name, algorithm, paths, why in _EVENT.iter_unpack(content[:whole]):
            if magic == _MAGIC:
                events.append(Event(*numbers, *map(_text, (name, algorithm, paths, why))))
    return sorted(events, key=lambda event: (event.begin_ns, -event.end_ns))


def timeline(events: list[Event]) -> dict[str, Any]:
    """Make what ui.perfetto.dev reads: a track for each rank, times in us from the first call on.

    A rank is a process where the launcher says so, else a thread by its rank in the largest
    communicator that it has calls of. Where one thread has several ranks, each has a track, and
    calls of smaller communicators have one by themselves.
    """
    first = min((event.begin_ns for event in events), default=0)
    largest = max((event.size for event in events), default=0)
    ranks: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    for event in events:
        if event.size == largest and event.rank >= 0:
            ranks[event.pid, event.thread].add(event.rank)
    tracks: dict[tuple[int, int], str] = {}
    calls = []
    for event in events:
        track, title = _track(event, ranks[event.pid, event.thread], largest)
        tracks[event.pid, track] = title
        calls.append(_call(event, track, first))
    return {"displayTimeUnit": "ns", "traceEvents": [*_names(tracks), *calls]}


def _track(event: Event, ranks: set[int], largest: int) -> tuple[int, str]:
    """The number of the event's track in its process, and what it is called."""
    if event.rank_in_job >= 0 and len(ranks) < 2:
        return event.rank_in_job, f"rank {event.rank_in_job} of {event.job_size}"
    if event.rank >= 0 and event.size == largest:
        return event.rank, f"rank {event.rank} of {largest}"
    if len(ranks) == 1:
        (rank,) = ranks
        return rank, f"rank {rank} of {largest}"
    return event.thread, f"thread {event.thread}"


def _names(tracks: dict[tuple[int, int], str]) -> list[dict[str, Any]]:
    names = []
    processes: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for (pid, track), title in sorted(tracks.items()):
        processes[pid][track] = title
        names.append(_metadata("thread_name", pid, track, {"name": title}))
        names.append(_metadata("thread_sort_index", pid, track, {"sort_index": track}))
    for pid, own in processes.items():
        title = next(iter(own.values())) if len(own) == 1 else "process"
        names.append(_metadata("process_name", pid, 0, {"name": f"{title} (pid {pid})"}))
        names.append(_metadata("process_sort_index", pid, 0, {"sort_index": min(own)}))
    return names


def _metadata(kind: str, pid: int, track: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": track, "args": args}


def _call(event: Event, track: int, first: int) -> dict[str, Any]:
    args: dict[str, Any] = {"bytes": event.bytes}
    if event.why:
        args["passed on"] = event.why
    ran_as = {"algorithm": event.algorithm, "path": event.paths}
    args |= {key: text for key, text in ran_as.items() if text}
    if event.size > 0:
        args["communicator"] = f"rank {event.rank} of {event.size}"
    return {
        "name": event.name,
        "cat": "passed on" if event.why else "Sennit",
        "ph": "X",
        "pid": event.pid,
        "tid": track,
        "ts": (event.begin_ns - first) / _NANOSECONDS_PER_MICROSECOND,
        "dur": (event.end_ns - event.begin_ns) / _NANOSECONDS_PER_MICROSECOND,
        "args": args,
    }


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
