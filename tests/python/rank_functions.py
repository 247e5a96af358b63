"""What ranks do in the tests; processes import these by name."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sennit
from oracle import contribution, contributions, reduced


def check_reductions(
    comm: sennit.Communicator, count: int, dtype: str, op: str, *, in_place: bool
) -> None:
    """all_reduce, reduce and reduce_scatter against the closed formula."""
    expected = reduced(comm.size, count, dtype, op)
    x = contribution(comm.rank, count, dtype)
    out = comm.all_reduce(x, x if in_place else None, op=op)
    np.testing.assert_array_equal(out, expected)
    assert (out is x) == in_place

    root = comm.size - 1
    x = contribution(comm.rank, count, dtype)
    out = comm.reduce(x, x if in_place else None, op=op, root=root)
    if comm.rank == root:
        np.testing.assert_array_equal(out, expected)
    else:
        assert out is None

    whole = contribution(comm.rank, count * comm.size, dtype).reshape(comm.size, count)
    part = comm.reduce_scatter(whole, whole[comm.rank] if in_place else None, op=op)
    expected = reduced(comm.size, count * comm.size, dtype, op).reshape(comm.size, count)
    np.testing.assert_array_equal(part, expected[comm.rank])


def check_movements(comm: sennit.Communicator, count: int, dtype: str) -> None:
    """The collectives that only move data, out of place and in place."""
    rank, size = comm.rank, comm.size
    everything = contributions(size, count, dtype)
    for root in range(size):
        x = contribution(rank, count, dtype)
        assert comm.broadcast(x, root) is x
        np.testing.assert_array_equal(x, everything[root])

        gathered = comm.gather(everything[rank], root=root)
        assert (gathered is None) == (rank != root)
        if gathered is not None:
            np.testing.assert_array_equal(gathered, everything)

        out = np.empty(count, dtype)
        assert comm.scatter(everything if rank == root else None, out, root=root) is out
        np.testing.assert_array_equal(out, everything[rank])

    np.testing.assert_array_equal(comm.all_gather(everything[rank]), everything)
    whole = np.zeros((size, count), dtype)
    whole[rank] = everything[rank]
    comm.all_gather(whole[rank], whole)
    np.testing.assert_array_equal(whole, everything)

    sent = contributions(size, count * size, dtype).reshape(size, size, count)
    np.testing.assert_array_equal(comm.all_to_all(sent[rank]), sent[:, rank])
    x = sent[rank].copy()
    assert comm.all_to_all(x, x) is x
    np.testing.assert_array_equal(x, sent[:, rank])
    comm.barrier()


def check_everything(comm: sennit.Communicator, seed: int) -> int:
    """Every collective with every type and operator at sizes drawn from a seed; gives the rank."""
    draw = random.Random(seed)
    for dtype in ("float32", "float64", "int32", "int64", "uint8"):
        check_movements(comm, draw.choice([0, 1, 3, draw.randrange(1, 5000)]), dtype)
        for op in ("sum", "min", "max"):
            count = draw.choice([0, 1, 7, draw.randrange(1, 20000)])
            check_reductions(comm, count, dtype, op, in_place=draw.random() < 0.5)
    exchange_in_opposite_order(comm)
    return comm.rank


def exchange_in_opposite_order(comm: sennit.Communicator) -> None:
    """Everyone sends to everyone in one group; odd ranks post their recvs first."""
    others = [rank for rank in range(comm.size) if rank != comm.rank]
    sent = {peer: np.array([comm.rank, peer, 7], np.int32) for peer in others}
    got = {peer: np.zeros(3, np.int32) for peer in others}
    sends_first = comm.rank % 2 == 0
    with sennit.group():
        for is_send in (sends_first, not sends_first):
            for peer in others if sends_first else reversed(others):
                if is_send:
                    comm.send(sent[peer], peer)
                else:
                    comm.recv(got[peer], peer)
    for peer in others:
        assert got[peer].tolist() == [peer, comm.rank, 7]


def kill_rank_one(comm: sennit.Communicator) -> int:
    """Rank 1 dies without a word while the others are in a call."""
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()
    return comm.rank


def report_death_of_rank_one(comm: sennit.Communicator, victim: int) -> None:
    """The victim dies in a call; the survivors raise what they saw."""
    comm.barrier()
    if comm.rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.all_reduce(np.ones(4))


def raise_in_rank_two(comm: sennit.Communicator) -> None:
    """Rank 2 raises, the others wait for it."""
    if comm.rank == 2:
        raise LookupError("what rank 2 did not find")
    comm.barrier()


def return_what_cannot_be_pickled(comm: sennit.Communicator) -> Any:
    """A result that no pipe can carry."""
    return (lambda: comm.rank) if comm.rank == 0 else None


def wait_alone(comm: sennit.Communicator) -> None:
    """Rank 0 waits in a call that rank 1 never makes."""
    if comm.rank == 1:
        time.sleep(60)
    print("waiting", flush=True)
    comm.all_reduce(np.ones(1 << 10), deadline_s=0)


def add_arguments(comm: sennit.Communicator, first: int, second: int) -> int:
    """What spawn passes on."""
    return first + second + comm.rank


class Full(Exception):
    """An exception that pickle writes, and cannot read: it calls the class with the text alone."""

    def __init__(self, disk: str, bytes_left: int) -> None:
        super().__init__(f"{disk} has {bytes_left} bytes left")


class Unreadable:
    """A result that pickle writes, and cannot read."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def raise_what_cannot_be_read_back(comm: sennit.Communicator) -> None:
    """Rank 1 raises, the others wait for it."""
    if comm.rank == 1:
        raise Full("disk1", 0)
    comm.barrier()


def raise_what_cannot_be_pickled(comm: sennit.Communicator) -> None:
    """Rank 1 raises an exception of a class that nobody else has."""

    class Local(Exception):
        pass

    if comm.rank == 1:
        raise Local("of a class without a place")
    comm.barrier()


def raise_interrupt(comm: sennit.Communicator) -> None:
    """Rank 1 raises what is no Exception."""
    if comm.rank == 1:
        raise KeyboardInterrupt
    comm.barrier()


def return_what_cannot_be_read_back(comm: sennit.Communicator) -> Any:
    """Rank 1 returns it."""
    return Unreadable() if comm.rank == 1 else None


def leave(comm: sennit.Communicator, code: Any) -> None:
    """Rank 1 calls sys.exit while the others wait for it."""
    if comm.rank == 1:
        sys.exit(code)
    comm.barrier()


def leave_at_once(comm: sennit.Communicator) -> None:
    """Rank 1 ends without a word to anybody."""
    if comm.rank == 1:
        os._exit(0)
    comm.barrier()


def use_children(comm: sennit.Communicator) -> list[int]:
    """A pool of processes of its own."""
    with multiprocessing.Pool(1) as pool:
        comm.barrier()
        return pool.map(abs, [-comm.rank])


def die_with_a_child_alive(comm: sennit.Communicator) -> None:
    """Rank 1 dies; its child holds what the child inherited, and lives on for a while."""
    if comm.rank == 1:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def exit_late(comm: sennit.Communicator, file: str) -> None:
    """An exit handler takes longer than failed ranks are given."""

    def write() -> None:
        time.sleep(3.3)
        Path(f"{file}.{comm.rank}").touch()

    atexit.register(write)


def tell_pid_and_call(comm: sennit.Communicator) -> None:
    """A rank that would call for half a minute."""
    os.write(1, f"{os.getpid()}\n".encode())  # in one write: another rank may write, too
    for _ in range(300):
        comm.barrier()
        time.sleep(0.1)


def come_late(comm: sennit.Communicator, seconds: float) -> None:
    """Rank 1 lets rank 0 wait."""
    time.sleep(seconds * comm.rank)
    comm.barrier()


def add_in_place(comm: sennit.Communicator, x: Any) -> Any:
    """The argument of all ranks, summed up in its own memory."""
    comm.all_reduce(x, x)
    return x


def fill_queue(comm: sennit.Communicator, queue: Any) -> None:
    """What multiprocessing allows to be passed to new processes only."""
    queue.put(comm.rank)


def add_by(comm: sennit.Communicator, schedule: sennit.schedules.Schedule) -> float:
    """One element of the sum of 1, 2, ..., by this schedule."""
    return float(comm.all_reduce(np.full(3, comm.rank + 1.0), schedule=schedule)[0])
