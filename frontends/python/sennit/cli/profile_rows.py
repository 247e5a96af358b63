"""GPU profiles from measured rows: which way won from which size on.

Rows are those of result files (`sennit bench --executor cuda --against engines` or `shares`): each
has the time of Sennit's own choice and of the other ways. What was not measured stays as in a
profile to begin with.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_PACKETS = {"sennit ll": "ll", "sennit ll128": "ll128", "sennit slots": "slots"}
_KERNELS = (*_PACKETS, "sennit put")
_COPIES = ("sennit stream",)
_SHARE = "sennit share "
_NO_SHARE = "sennit share 0"
# Up to here calls of a stream are bound by the host that makes them.
_STREAM_FROM_BYTES = 2 << 20
_COPY_SIZES = {
    "all_gather": "copy_engines",
    "all_to_all": "copy_engines",
    "all_reduce": "copy_engines.all_reduce",
    "reduce_scatter": "copy_engines.reduce_scatter",
    "broadcast": "copy_engines.broadcast",
    "send_recv": "copy_engines.send_recv",
}
_PUT_SIZES = {
    "all_gather": "one_sided",
    "all_to_all": "one_sided",
    "broadcast": "one_sided",
    "send_recv": "one_sided.send_recv",
}
_MESSAGE = "send_recv"
_MANY = 32
_NEVER = "never"


@dataclasses.dataclass(frozen=True)
class Span:
    """A way that won from some size on.

    Attributes:
        from_bytes: The geometric mean of the last size where another way won and the first where
            this one did; of the first way the smallest size that was measured.
        way: The key of the row.
    """

    from_bytes: int
    way: str


Timed = dict[int, dict[str, float]]
"""Microseconds of each way, by the bytes of a row."""


def times_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], Timed]:
    """The times of all ways by collective, ranks and bytes; modes of one size are added up."""
    timed: dict[tuple[str, int], Timed] = defaultdict(dict)
    for row in rows:
        ways = {way: time["p50"] for way, time in (row.get("engines") or {}).items()}
        is_bound_by_host = row.get("mode") == "call" or (
            row.get("mode") == "stream" and row["bytes"] < _STREAM_FROM_BYTES
        )
        is_special = row.get("bidirectional") or row.get("window", 1) != 1 or row.get("sm_budget")
        if not ways or is_bound_by_host or is_special:
            continue
        sizes = timed[(row["collective"], row["ranks"])]
        before = sizes.get(row["bytes"])
        if before is None:
            sizes[row["bytes"]] = ways
        else:
            sizes[row["bytes"]] = {
                way: us + before[way] for way, us in ways.items() if way in before
            }
    return timed


def spans(timed: Timed, ways: Sequence[str]) -> list[Span]:
    """Which of the ways won from which size on, smallest sizes first."""
    found: list[Span] = []
    last = 0
    for size in sorted(timed):
        here = {way: timed[size][way] for way in ways if way in timed[size]}
        if len(here) <= 1:  # nothing was compared
            continue
        best = min(here, key=lambda way: here[way])
        if not found:
            found.append(Span(size, best))
        elif found[-1].way != best:
            found.append(Span(round(math.sqrt(last * size)), best))
        last = size
    return found


def ahead_from(
    timed: Timed, ways: Sequence[str], others: Sequence[str], usual: int | None
) -> int | None:
    """From which bytes on one of the ways beats all others.

    Args:
        timed: The times.
        ways: Of which one is to be ahead.
        others: All of which are to be behind.
        usual: What to answer where it is ahead at all sizes, unless that is beyond the smallest.

    Returns:
        None where it is behind at the largest size.
    """
    compared = [
        size
        for size in sorted(timed)
        if any(way in timed[size] for way in ways) and any(way in timed[size] for way in others)
    ]
    start: int | None = None
    before = 0
    for size in compared:
        here = timed[size]
        ahead = min(here[way] for way in ways if way in here) < min(
            here[way] for way in others if way in here
        )
        if not ahead:
            start = None
        elif start is None:
            start = round(math.sqrt(before * size)) if before else size
        before = size
    always = compared and start == compared[0]
    return min(start or 0, usual) if always and usual is not None else start


def _total(collective: str, nbytes: int) -> int:
    """Profiles count bytes of all ranks together: of a message, those of both ends."""
    return 2 * nbytes if collective == _MESSAGE else nbytes


class Profile:
    """The text of a profile, line by line, in which measured lines take the place of others."""

    def __init__(self, text: str) -> None:
        """Read the lines of a file."""
        self._lines = text.splitlines()

    def packets(self, collective: str, ranks: int, nbytes: int) -> tuple[str, str] | None:
        """Algorithm and protocol of the first row of packets that fits; None: a model decides."""
        for words in self._rows(collective):
            if ranks <= int(words[3]) and nbytes >= bytes_of(words[5]):
                return words[7], words[9]
        return None

    def size(self, key: str) -> int | None:
        """The bytes of a line `size`; None: never."""
        words = next(line.split() for line in self._lines if line.startswith(f"size {key} "))
        return None if words[2] == _NEVER else bytes_of(words[2])

    def last_algorithm(self, collective: str) -> str:
        """That of the collective's last row, which is for its smallest sizes."""
        return self._rows(collective)[-1][7]

    def _rows(self, collective: str) -> list[list[str]]:
        return [line.split() for line in self._lines if line.startswith(f"packets {collective} ")]

    def set_word(self, key: str, value: str) -> None:
        """Set a line that stands once, such as `name` or `size ll`."""
        self._lines = [
            f"{key} {value}" if f"{line} ".startswith(f"{key} ") else line for line in self._lines
        ]

    def set_rows(
        self, kind: str, collective: str, ranks: int, rows: Sequence[str], from_bytes: int
    ) -> None:
        """Put rows of just so many ranks, larger sizes first, in the place of those there were.

        Args:
            kind: "packets" or "host_share".
            collective: Its name.
            ranks: How many.
            rows: What stands behind the ranks in each line.
            from_bytes: Rows for smaller sizes stay.
        """
        head = f"{kind} {collective} up_to_ranks {ranks} "
        same = [n for n, line in enumerate(self._lines) if line.startswith(f"{kind} {collective} ")]
        # A row for fewer ranks goes before one for more, since the first that fits holds.
        ahead = [n for n in same if int(self._lines[n].split()[3]) < ranks]
        place = ahead[-1] + 1 if ahead else same[0] if same else len(self._lines)
        kept = [
            (n, line)
            for n, line in enumerate(self._lines)
            if not line.startswith(head) or bytes_of(line.split()[5]) < from_bytes
        ]
        before = [line for n, line in kept if n < place]
        after = [line for n, line in kept if n >= place]
        self._lines = [*before, *(head + row for row in rows), *after]

    def text(self) -> str:
        """The whole file."""
        return "\n".join(self._lines) + "\n"


def bytes_of(word: str) -> int:
    """A number of bytes as profiles write it, such as 32M."""
    shift = {"K": 10, "M": 20, "G": 30}.get(word[-1], 0)
    return int(word.rstrip("KMG")) << shift


def word_of(nbytes: int) -> str:
    """The other way round, to 2 %: in whole units where there are many."""
    for unit, shift in (("M", 20), ("K", 10)):
        if nbytes >= (_MANY << shift) or (nbytes and nbytes % (1 << shift) == 0):
            return f"{round(nbytes / (1 << shift))}{unit}"
    return str(nbytes)


def derive(base: str, rows: Iterable[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """A profile in which everything that the rows compare is theirs.

    Args:
        base: The text of the profile to begin with.
        rows: Of result files.

    Returns:
        The text, and a line for each thing that was set.
    """
    profile = Profile(base)
    notes: list[str] = []
    sizes: dict[str, list[int | None]] = defaultdict(list)
    timed = times_of(rows)
    for (collective, ranks), times in sorted(timed.items()):
        found = spans(times, tuple(_PACKETS))
        if found:
            _set_packets(profile, collective, ranks, found)
            notes.append(f"packets of {collective} on {ranks} ranks")
        shares = _shares(times) if collective != _MESSAGE else []  # those follow the load
        if shares:
            _set_shares(profile, collective, ranks, shares)
            notes.append(f"host_share of {collective} on {ranks} ranks")
        for key, ways, others in (
            (_COPY_SIZES.get(collective), _COPIES, _KERNELS),
            (_PUT_SIZES.get(collective), ("sennit put",), tuple(_PACKETS)),
        ):
            if key is not None and any(way in at for at in times.values() for way in ways):
                sizes[key].append(ahead_from(times, ways, others, profile.size(key)))
    for key, starts in sorted(sizes.items()):
        # A size holds for several collectives and numbers of ranks: where none of them loses.
        none_loses = [start for start in starts if start is not None]
        all_win = len(none_loses) == len(starts)
        profile.set_word(f"size {key}", word_of(max(none_loses)) if all_win else _NEVER)
        notes.append(f"size {key}")
    return profile.text(), notes


def _set_packets(profile: Profile, collective: str, ranks: int, found: Sequence[Span]) -> None:
    ranks = 2 if collective == _MESSAGE else ranks
    smallest = _total(collective, found[0].from_bytes)
    usual = profile.packets(collective, ranks, smallest)
    rows = []
    for span in reversed(found):
        total = _total(collective, span.from_bytes)
        known = profile.packets(collective, ranks, total)
        algorithm = known[0] if known else profile.last_algorithm(collective)
        protocol = _PACKETS[span.way]
        if span is not found[0] or usual is None or usual[1] != protocol:
            rows.append(f"from {word_of(total)} algorithm {algorithm} protocol {protocol}")
    profile.set_rows("packets", collective, ranks, rows, smallest)


def _shares(times: Timed) -> list[Span]:
    """Which share won from which size on; empty where none was timed."""
    ways = {way for at in times.values() for way in at if way.startswith(_SHARE)}
    return spans(times, sorted(way for way in ways if way.removeprefix(_SHARE).isdigit()))


def _set_shares(profile: Profile, collective: str, ranks: int, shares: Sequence[Span]) -> None:
    rows = [
        f"from {word_of(span.from_bytes)} percent {span.way.removeprefix(_SHARE)}"
        for span in reversed(shares)
        if span.way != _NO_SHARE or span is not shares[0]
    ]
    smallest = shares[0].from_bytes
    profile.set_rows("host_share", collective, ranks, rows, smallest)
