"""Random calls with random failures, for as long as asked: `make soak`, or python soak.py --help.

Rounds run on ranks that are processes, and on ranks that are threads of one process. Processes
live on from round to round, but for one that may be killed; what they hold must stay flat.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rounds import (
    DEADLY,
    EVENTS,
    EXPECTED,
    MOST_STEPS,
    MOST_WAIT_S,
    OF_THREADS,
    Outcome,
    Plan,
    take_part,
)
from sennit.cli.bench_document import document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.connection import Connection

MOST_RANKS = 5
ROUND_S = 240.0  # more than the deadlines of a round take together, where ranks get a core
WARM_ROUNDS = 50  # until what is made once has been made


class Holdings(NamedTuple):
    """What a process holds of the system."""

    descriptors: int
    threads: int
    mappings: int
    kib: int


# Descriptors and threads are counted; mappings and memory are also the interpreter's.
MOST_GROWTH = Holdings(descriptors=0, threads=0, mappings=10, kib=4 << 10)

# glibc keeps hundreds of megabytes of what threads have freed, unless it gives large blocks back at
# once and has one heap for all threads.
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "131072"}


def holdings() -> Holdings:
    """Of this process, now."""
    gc.collect()
    own = Path("/proc/self")
    pages = int((own / "statm").read_text().split()[1])
    return Holdings(
        len(os.listdir(own / "fd")),  # noqa: PTH208
        len(os.listdir(own / "task")),  # noqa: PTH208
        len((own / "maps").read_text().splitlines()),
        pages * os.sysconf("SC_PAGESIZE") >> 10,
    )


def growth(early: Holdings, late: Holdings) -> list[str]:
    """What has grown more than it may."""
    return [
        f"{name}: {before} after {WARM_ROUNDS} rounds, {after} at the end"
        for name, before, after, most in zip(
            Holdings._fields, early, late, MOST_GROWTH, strict=True
        )
        if after > before + most
    ]


def serve(pipe: Connection) -> None:
    """Be a process of ranks: take part in rounds, report the outcomes and what is held."""
    for plan, ranks in iter(pipe.recv, None):
        if len(ranks) == 1:
            outcomes = [_outcome_of(plan, ranks[0])]
        else:
            outcomes = _outcomes_of_threads(plan, ranks)
        pipe.send((outcomes, holdings()))


def _outcome_of(plan: Plan, rank: int) -> Outcome:
    try:
        return take_part(plan, rank)
    except BaseException as error:
        return Outcome(wrong=f"unexpected: {error!r}")


def _outcomes_of_threads(plan: Plan, ranks: Sequence[int]) -> list[Outcome]:
    outcomes: dict[int, Outcome] = {}

    def run(rank: int) -> None:
        outcomes[rank] = _outcome_of(plan, rank)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcomes[rank] for rank in ranks]


class Worker:
    """A process of ranks, as the driver sees it."""

    def __init__(self, round_s: float = ROUND_S) -> None:
        """Start it; `round_s` later than it should, its round counts as a hang."""
        self.round_s = round_s
        context = multiprocessing.get_context("spawn")
        self.pipe, there = context.Pipe()
        self.process = context.Process(target=serve, args=(there,), daemon=True)
        self.process.start()
        there.close()
        self.rounds = 0
        self.early: Holdings | None = None
        self.late: Holdings | None = None

    def let_go_on(self) -> None:
        """Wait until it is stopped, and end that."""
        until = time.monotonic() + self.round_s
        while not self._is_stopped():
            if time.monotonic() > until:
                raise Hang
            time.sleep(0.001)
        os.kill(self.process.pid or 0, signal.SIGCONT)

    def answer(self) -> list[Outcome] | None:
        """The outcomes of a round; None if the process has died."""
        if not self.pipe.poll(self.round_s):
            raise Hang
        try:
            outcomes, held = self.pipe.recv()
        except EOFError:
            self.process.join()
            return None
        self.rounds += 1
        self.late = held
        if self.rounds == WARM_ROUNDS:
            self.early = held
        answer: list[Outcome] = outcomes
        return answer

    def _is_stopped(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def end(self) -> None:
        """End it."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


class Hang(Exception):
    """A rank has not come out of a round."""


class Soak:
    """The workers, and what they have reported."""

    def __init__(self, seed: int, of_threads: float = 0.5, round_s: float = ROUND_S) -> None:
        """Start the workers; the last one is that which may be killed.

        Args:
            seed: Of all that is drawn.
            of_threads: The share of rounds whose ranks are threads.
            round_s: The time after which a round counts as a hang.
        """
        self.draw = random.Random(seed)
        self.share = of_threads
        self.round_s = round_s
        os.environ |= ALLOCATOR
        self.workers = [Worker(round_s) for _ in range(MOST_RANKS)]
        self.of_threads = Worker(round_s)
        self.rounds: Counter[str] = Counter()
        self.longest_s: dict[str, float] = {}
        self.failures: list[str] = []

    def run_round(self) -> None:
        """Draw a round, run it, and judge it."""
        threads = self.draw.random() < self.share
        events = OF_THREADS if threads else tuple(EVENTS)
        ranks = self.draw.randint(2, MOST_RANKS)
        plan = Plan(
            seed=self.draw.getrandbits(32),
            ranks=ranks,
            key=f"soak {os.getpid()} {sum(self.rounds.values())}",
            event=self.draw.choice(events),
            victim=self.draw.randrange(ranks),
            at=self.draw.randrange(MOST_STEPS),
        )
        kind = f"{'threads' if threads else 'processes'} {plan.event}"
        self.rounds[kind] += 1
        outcomes = self._on_threads(plan) if threads else self._on_processes(plan)
        self.failures += [f"{plan}: {problem}" for problem in judge(plan, outcomes)]
        waits = [outcome.waited_s for outcome in outcomes if outcome is not None]
        self.longest_s[kind] = max(self.longest_s.get(kind, 0.0), *waits, 0.0)

    def _on_threads(self, plan: Plan) -> Sequence[Outcome | None]:
        self.of_threads.pipe.send((plan, list(range(plan.ranks))))
        return self.of_threads.answer() or [None] * plan.ranks

    def _on_processes(self, plan: Plan) -> list[Outcome | None]:
        mortal = self.workers[-1]
        places = self.draw.sample(self.workers[:-1], plan.ranks - 1)
        places.insert(plan.victim, mortal)
        for rank, worker in enumerate(places):
            worker.pipe.send((plan, [rank]))
        if plan.event == "stop":
            mortal.let_go_on()
        answers = [worker.answer() for worker in places]
        if answers[plan.victim] is None:
            mortal.end()
            self.workers[-1] = Worker(self.round_s)
        return [None if answer is None else answer[0] for answer in answers]

    def grown(self) -> Iterator[str]:
        """What has grown in the workers that have lived long."""
        for name, worker in self.lasting():
            if worker.early is not None and worker.late is not None:
                yield from (f"{name}: {what}" for what in growth(worker.early, worker.late))

    def lasting(self) -> list[tuple[str, Worker]]:
        """The workers that nothing kills."""
        named = [(f"process {place}", worker) for place, worker in enumerate(self.workers[:-1])]
        return [*named, ("process of threads", self.of_threads)]

    def end(self) -> None:
        """End the workers."""
        for worker in [*self.workers, self.of_threads]:
            worker.end()


def judge(plan: Plan, outcomes: Sequence[Outcome | None]) -> Iterator[str]:
    """What is wrong with a round."""
    expected = EXPECTED[plan.event]
    for rank, outcome in enumerate(outcomes):
        who = f"rank {rank}"
        if outcome is None:
            if rank != plan.victim or plan.event not in DEADLY:
                yield f"{who} has died"
        elif outcome.wrong and not (rank == plan.victim and plan.event == "differ"):
            # A victim that differs may be alone in its part, and then has more than it should.
            yield f"{who}: {outcome.wrong} ({outcome.text})"
        elif rank != plan.victim and outcome.error not in (expected or ("",)):
            yield f"{who} got {outcome.error or 'nothing'}, not {expected}: {outcome.text}"
        elif outcome.waited_s > MOST_WAIT_S:
            yield f"{who} got its answer after {outcome.waited_s:.0f} s: {outcome.text}"
        elif plan.event in DEADLY and outcome.blamed != (plan.victim,):
            yield f"{who} blames {outcome.blamed}: {outcome.text}"


def report(soak: Soak, seconds: float) -> None:
    """Print what there was."""
    print(f"{sum(soak.rounds.values())} rounds in {seconds:.0f} s, {len(soak.failures)} failed")
    for kind, count in sorted(soak.rounds.items()):
        print(f"  {count:6} {kind:22} longest wait {soak.longest_s.get(kind, 0.0):.2f} s")
    for name, worker in soak.lasting():
        print(f"  {name}, {worker.rounds} rounds: {worker.early} -> {worker.late}")


def rows_of(soak: Soak, seconds: float) -> list[dict[str, Any]]:
    """The rows of a result file: what happened, and what the workers held before and after."""
    events = [
        {"kind": "event", "ranks_are": ranks_are, "event": event, "rounds": count}
        | {"longest_wait_s": soak.longest_s.get(f"{ranks_are} {event}", 0.0)}
        for (ranks_are, event), count in sorted(
            (tuple(k.split()), n) for k, n in soak.rounds.items()
        )
    ]
    held = [
        {"kind": "process", "name": name, "rounds": worker.rounds}
        | {f"early_{key}": value for key, value in worker.early._asdict().items()}
        | {f"late_{key}": value for key, value in worker.late._asdict().items()}
        for name, worker in soak.lasting()
        if worker.early is not None and worker.late is not None
    ]
    total = {"kind": "total", "rounds": sum(soak.rounds.values()), "seconds": seconds}
    return [
        *events,
        *held,
        total | {"failed": len(soak.failures), "grown": len(list(soak.grown()))},
    ]


OF_THREADS_SHARE = {"processes": 0.0, "threads": 1.0, "both": 0.5}


def main() -> int:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--rounds", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--ranks-are", choices=OF_THREADS_SHARE, default="both")
    parser.add_argument("--round-s", type=float, default=ROUND_S, help="longer is a hang")
    parser.add_argument("--json", type=Path, help="a result file (bench/results)")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    found = document([]) if arguments.json else {}
    soak = Soak(arguments.seed, OF_THREADS_SHARE[arguments.ranks_are], arguments.round_s)
    begin = last = time.monotonic()
    try:
        for _ in range(arguments.rounds):
            soak.run_round()
            now = time.monotonic()
            if soak.failures or now - begin > arguments.seconds:
                break
            if now - last > 60:
                last = now
                report(soak, now - begin)
                sys.stdout.flush()
    except Hang:
        soak.failures.append("a rank has not come out of the last round")
    finally:
        soak.end()
    seconds = time.monotonic() - begin
    report(soak, seconds)
    if arguments.json:
        program = f"tests/soak/soak.py --ranks-are {arguments.ranks_are} --seed {arguments.seed}"
        found = {"schema": found.pop("schema"), "program": program} | found
        found["rows"] = rows_of(soak, seconds)
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    problems = [*soak.failures, *soak.grown()]
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
