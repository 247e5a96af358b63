"""One round of the soak: a communicator, random calls, and what happens to one of its ranks.

All ranks draw the same calls from the seed of the round. Inputs encode rank and index, so that
every result is a closed formula.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sennit
from sennit.rank_job import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DTYPES = ("int32", "int64", "float64")
COUNTS = (0, 1, 7, 1_000, 40_000, 300_000)
MOST_STEPS = 12
JOIN_S = 60.0
PATIENT_S = 60.0
HASTY_S = 0.5  # where a rank is late on purpose
MOST_WAIT_S = 30.0  # of a call that cannot end, also on a busy machine: half of its deadline


class Plan(NamedTuple):
    """A round."""

    seed: int
    ranks: int
    key: str
    event: str
    victim: int
    at: int  # the event comes before this step


class Outcome(NamedTuple):
    """How a rank came out of a round."""

    error: str = ""  # name of the class; empty: none
    blamed: tuple[int, ...] = ()
    text: str = ""
    wrong: str = ""  # what had other values than it should
    waited_s: float = 0.0  # in the call that failed


class WrongValues(Exception):
    """A call has given what it should not."""


class _Gone(Exception):
    """What the program of the victim does wrong."""


def inputs(rank: int, count: int, dtype: str, salt: int) -> NDArray[Any]:
    """Element i of a rank; sums over 16 ranks stay exact in every type here."""
    return (np.arange(count, dtype=np.int64) % 1000 + rank * 1000 + salt).astype(dtype)


def require(got: Any, expected: Any, what: str) -> None:
    if not np.array_equal(got, expected):
        raise WrongValues(what)


class _Steps:
    """The calls of a round; each method is one kind."""

    def __init__(self, comm: sennit.Communicator, draw: random.Random) -> None:
        self.comm = comm
        self.draw = draw
        self.kinds: list[Callable[[int], None]] = [
            self.all_reduce,
            self.started,
            self.broadcast,
            self.reduce,
            self.all_gather,
            self.reduce_scatter,
            self.all_to_all,
            self.gather_and_scatter,
            self.messages,
            self.part,
        ]

    def next(self, salt: int, one_differs: bool, is_that: bool) -> None:
        """Draw a call and make it; the rank that differs brings an element more.

        A call of nothing waits for nobody: where one rank brings something there, another may find
        that in the last barrier, when the rest are through.
        """
        self.more = 1 if one_differs and is_that else 0
        self.count = self.draw.choice(COUNTS[1:] if one_differs else COUNTS)
        self.dtype = self.draw.choice(DTYPES)
        self.root = self.draw.randrange(self.comm.size)
        self.draw.choice(self.kinds)(salt)

    def _input(self, rank: int, salt: int, times: int = 1) -> NDArray[Any]:
        more = self.more if rank == self.comm.rank else 0
        return inputs(rank, (self.count + more) * times, self.dtype, salt)

    def _all(self, salt: int, times: int = 1) -> NDArray[Any]:
        ranks = range(self.comm.size)
        return np.stack([inputs(rank, self.count * times, self.dtype, salt) for rank in ranks])

    def all_reduce(self, salt: int) -> None:
        got = self.comm.all_reduce(self._input(self.comm.rank, salt))
        require(got, self._all(salt).sum(axis=0), "all_reduce")

    def started(self, salt: int) -> None:
        salts = range(salt, salt + 3)
        works = [
            self.comm.start.all_reduce(self._input(self.comm.rank, one), op="max") for one in salts
        ]
        for one, work in zip(salts, works, strict=True):
            require(work.wait(), self._all(one).max(axis=0), "started all_reduce")

    def broadcast(self, salt: int) -> None:
        got = self.comm.broadcast(self._input(self.comm.rank, salt), self.root)
        require(got, inputs(self.root, self.count, self.dtype, salt), "broadcast")

    def reduce(self, salt: int) -> None:
        got = self.comm.reduce(self._input(self.comm.rank, salt), op="min", root=self.root)
        if self.comm.rank == self.root:
            require(got, self._all(salt).min(axis=0), "reduce")

    def all_gather(self, salt: int) -> None:
        got = self.comm.all_gather(self._input(self.comm.rank, salt))
        require(got.reshape(-1), self._all(salt).reshape(-1), "all_gather")

    def reduce_scatter(self, salt: int) -> None:
        size = self.comm.size
        got = self.comm.reduce_scatter(self._input(self.comm.rank, salt, size))
        sums = self._all(salt, size).sum(axis=0)
        require(got.reshape(-1), sums.reshape(size, -1)[self.comm.rank], "reduce_scatter")

    def all_to_all(self, salt: int) -> None:
        size = self.comm.size
        got = self.comm.all_to_all(self._input(self.comm.rank, salt, size))
        blocks = self._all(salt, size).reshape(size, size, -1)[:, self.comm.rank]
        require(got.reshape(-1), blocks.reshape(-1), "all_to_all")

    def gather_and_scatter(self, salt: int) -> None:
        mine = self._input(self.comm.rank, salt)
        got = self.comm.gather(mine, root=self.root)
        is_root = self.comm.rank == self.root
        if is_root:
            require(got.reshape(-1), self._all(salt).reshape(-1), "gather")
        out = np.empty_like(mine)
        self.comm.scatter(got.reshape(-1) if is_root else None, out, root=self.root)
        require(out, mine, "scatter of what was gathered")

    def messages(self, salt: int) -> None:
        """A ring, and a message of each rank to itself."""
        rank, size = self.comm.rank, self.comm.size
        mine = self._input(rank, salt)
        got = np.empty_like(mine)
        own = np.empty_like(mine)
        with sennit.group():
            if size > 1:
                self.comm.send(mine, (rank + 1) % size)
                self.comm.recv(got, (rank - 1) % size)
            self.comm.send(mine, rank)
            self.comm.recv(own, rank)
        require(own, mine, "a message to itself")
        if size > 1:
            require(got, inputs((rank - 1) % size, self.count, self.dtype, salt), "a message")

    def part(self, salt: int) -> None:
        """A communicator of every second rank, as long as a call takes."""
        colour = self.comm.rank % 2
        part = self.comm.split(colour)
        assert part is not None
        with part:
            got = part.all_reduce(self._input(self.comm.rank, salt))
            require(got, self._all(salt)[colour::2].sum(axis=0), "all_reduce of a part")


def _raise(_: sennit.Communicator) -> None:
    raise _Gone


# What happens to the victim. "late" and "differ" concern its next call.
EVENTS: dict[str, Callable[[sennit.Communicator], Any]] = {
    "none": lambda _: None,
    "raise": _raise,
    "abort": lambda comm: comm.abort(),
    "late": lambda _: time.sleep(4 * HASTY_S),
    "differ": lambda _: None,
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "leave": lambda _: os._exit(0),
}
OF_THREADS = ("none", "raise", "abort", "late", "differ")
DEADLY = ("kill", "leave")

# What the survivors may get. None: all calls end well.
EXPECTED: dict[str, tuple[str, ...] | None] = {
    "none": None,
    "stop": None,
    "kill": ("RankFailed",),
    "leave": ("RankFailed",),
    "raise": ("Mismatch",),
    "abort": ("Aborted",),
    "late": ("DeadlineExceeded",),
    "differ": ("Mismatch",),
}


def _call_all(plan: Plan, comm: sennit.Communicator) -> None:
    draw = random.Random(plan.seed)
    steps = _Steps(comm, draw)
    is_victim = comm.rank == plan.victim
    for number in range(draw.randint(plan.at + 1, MOST_STEPS)):
        is_now = number == plan.at
        if is_now and is_victim:
            EVENTS[plan.event](comm)
        steps.next(number, one_differs=is_now and plan.event == "differ", is_that=is_victim)
    comm.barrier()  # nobody is through before all have seen the end


def _go_on(plan: Plan, comm: sennit.Communicator) -> None:
    """The survivors form a communicator of their own, and call."""
    with comm.shrink([plan.victim]) as rest:
        # Without the haste of the round before: this call has to end well on a busy machine, too.
        ones = rest.all_reduce(np.ones(1000), deadline_s=PATIENT_S)
        require(ones, np.full(1000, plan.ranks - 1.0), "all_reduce of the survivors")


def take_part(plan: Plan, rank: int) -> Outcome:
    """Be a rank of the round."""
    deadline_s = HASTY_S if plan.event == "late" else PATIENT_S
    job = Job(take_part, (), plan.ranks, plan.key, JOIN_S, deadline_s)
    comm = job.join(rank)
    assert comm is not None
    with comm:
        try:
            _call_all(plan, comm)
            return Outcome()
        except _Gone:
            return Outcome(error="_Gone")
        except WrongValues as wrong:
            return Outcome(wrong=str(wrong))
        except sennit.Error as error:
            outcome = Outcome(
                type(error).__name__,
                error.blamed_ranks,
                str(error),
                waited_s=error.elapsed_s,
            )
        if rank == plan.victim or plan.ranks < 3:
            return outcome
        try:
            _go_on(plan, comm)
        except (WrongValues, sennit.Error) as error:
            return outcome._replace(wrong=f"the survivors cannot go on: {error}")
        return outcome
