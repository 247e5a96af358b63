"""Calls that do not wait, and groups."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import sennit
from oracle import contribution, contributions, reduced


def test_a_work_gives_the_result_of_the_call() -> None:
    def rank(comm: sennit.Communicator) -> None:
        rank, size = comm.rank, comm.size
        rows = contributions(size, size, "int64")
        root = 0
        works = [
            (comm.start.all_reduce(rows[rank]), reduced(size, size, "int64", "sum")),
            (comm.start.all_gather(rows[rank]), rows),
            (comm.start.reduce_scatter(rows[rank]), [reduced(size, size, "int64", "sum")[rank]]),
            (comm.start.all_to_all(rows[rank]), rows[:, rank]),
            (comm.start.broadcast(rows[rank].copy(), root=1), rows[1]),
        ]
        for work, expected in reversed(works):
            np.testing.assert_array_equal(work.wait(), expected)
        gathered = comm.start.gather(rows[rank]).wait()
        np.testing.assert_array_equal(gathered, rows if rank == root else None)
        out = np.empty(1, np.int64)
        assert comm.start.scatter(rows[0] if rank == root else None, out).wait() is out
        assert out[0] == rows[0][rank]
        total = comm.start.reduce(rows[rank], op="max").wait()
        np.testing.assert_array_equal(total, rows[-1] if rank == root else None)
        assert comm.start.barrier().wait() is None

    sennit.spawn(rank, 3, threads=True)


def test_a_work_that_has_not_ended_says_so_and_ends_later() -> None:
    def rank(comm: sennit.Communicator) -> None:
        if comm.rank == 0:
            work = comm.start.recv(np.zeros(4), 1)
            with pytest.raises(sennit.InProgress, match=r"0\.1 s"):
                work.wait(timeout_s=0.1)
            assert not work.test()
            comm.send(np.ones(1), 1)
            assert work.wait().tolist() == [0, 1, 2, 3]
            assert work.test()
            assert work.wait().tolist() == [0, 1, 2, 3]
        else:
            comm.recv(np.zeros(1), 0)
            comm.send(np.arange(4.0), 0)

    sennit.spawn(rank, 2, threads=True)


def test_a_work_keeps_its_buffers_alive() -> None:
    def rank(comm: sennit.Communicator) -> None:
        works = [comm.start.all_reduce(contribution(comm.rank, 5000, "float64")) for _ in range(20)]
        gc.collect()
        for work in works:
            np.testing.assert_array_equal(work.wait(), reduced(comm.size, 5000, "float64", "sum"))

    sennit.spawn(rank, 2, threads=True)


def test_a_failed_work_fails_whenever_it_is_asked() -> None:
    def rank(comm: sennit.Communicator) -> None:
        work = comm.start.recv(np.zeros(4), 1 - comm.rank)
        comm.abort()
        for _ in range(2):
            with pytest.raises(sennit.Error):
                work.wait()

    sennit.spawn(rank, 2, threads=True)


def test_a_group_runs_calls_of_several_communicators() -> None:
    def rank(comm: sennit.Communicator) -> None:
        other = comm.split(0)
        assert other is not None
        a, b = np.ones(3), np.full(3, 2.0)
        with comm.group():
            work = comm.start.all_reduce(a, a)
            with sennit.group():
                other.all_reduce(b, b)
            assert not work.test()
        assert work.wait().tolist() == [comm.size] * 3
        assert b.tolist() == [2.0 * comm.size] * 3
        other.destroy()

    sennit.spawn(rank, 3, threads=True)


def test_a_group_that_raises_makes_none_of_its_calls() -> None:
    def rank(comm: sennit.Communicator) -> None:
        x = np.ones(3)

        def group_that_raises() -> None:
            with sennit.group():
                comm.all_reduce(x, x)
                raise LookupError

        with pytest.raises(LookupError):
            group_that_raises()
        assert x.tolist() == [1.0] * 3
        comm.all_reduce(x, x)
        assert x.tolist() == [2.0] * 3

    sennit.spawn(rank, 2, threads=True)


def test_a_work_of_an_open_group_cannot_be_waited_for() -> None:
    def rank(comm: sennit.Communicator) -> None:
        with sennit.group():
            work = comm.start.barrier()
            with pytest.raises(sennit.InvalidUsage, match="has not been started"):
                work.wait()
        work.wait()

    sennit.spawn(rank, 2, threads=True)
