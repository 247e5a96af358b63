"""Communicators: what they say of themselves, how they begin, part and end."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import sennit


def test_ranks_know_their_place() -> None:
    def rank(comm: sennit.Communicator) -> tuple[int, int, str, bool]:
        return comm.rank, comm.size, comm.name, comm.failed

    expected = [(rank, 3, "spawn", False) for rank in range(3)]
    assert sennit.spawn(rank, 3, threads=True) == expected


def test_split_orders_by_key_and_leaves_out_who_has_no_color() -> None:
    def rank(comm: sennit.Communicator) -> tuple[int, int, float] | None:
        part = comm.split(None if comm.rank == 3 else comm.rank % 2, key=-comm.rank)
        if part is None:
            return None
        with part:
            return part.rank, part.size, float(part.all_reduce(np.array([2.0**comm.rank]))[0])

    assert sennit.spawn(rank, 4, threads=True) == [(1, 2, 5.0), (0, 1, 2.0), (0, 2, 5.0), None]


def test_shrink_leaves_the_excluded_out() -> None:
    def rank(comm: sennit.Communicator) -> int | None:
        if comm.rank == 1:
            return None
        with comm.shrink([1]) as rest:
            return int(rest.all_reduce(np.array([comm.rank]))[0])

    assert sennit.spawn(rank, 3, threads=True) == [2, None, 2]


def test_a_destroyed_communicator_refuses_calls() -> None:
    def rank(comm: sennit.Communicator) -> None:
        comm.destroy()
        comm.destroy()
        with pytest.raises(sennit.InvalidUsage, match="has been destroyed"):
            comm.barrier()

    sennit.spawn(rank, 2, threads=True)


def test_the_context_manager_destroys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENNIT_RANK", "0")
    monkeypatch.setenv("SENNIT_SIZE", "1")
    monkeypatch.setenv("SENNIT_KEY", "test-context-manager")
    with sennit.init(name="alone", config=sennit.Config(paths="shm")) as comm:
        assert (comm.rank, comm.size, comm.name) == (0, 1, "alone")
        assert comm.all_reduce(np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(sennit.InvalidUsage):
        comm.barrier()


def test_abort_ends_the_waiting_of_other_ranks() -> None:
    def rank(comm: sennit.Communicator) -> bool:
        if comm.rank == 0:
            comm.abort()
        else:
            with pytest.raises(sennit.Error) as caught:
                comm.barrier()
            assert isinstance(caught.value, (sennit.Aborted, sennit.RankFailed))
        return comm.failed

    assert sennit.spawn(rank, 3, threads=True) == [True] * 3


def test_a_registration_ends_once() -> None:
    def rank(comm: sennit.Communicator) -> float:
        x = np.ones(8)
        with comm.register(x) as registration:
            comm.all_reduce(x, x)
        registration.close()
        return float(x[0])

    assert sennit.spawn(rank, 2, threads=True) == [2.0, 2.0]


def test_a_rank_does_not_wait_to_join_a_part_with_those_that_gave_up() -> None:
    gave_up = threading.Event()

    def rank(comm: sennit.Communicator) -> sennit.Error:
        if comm.rank == 1:
            gave_up.wait()  # its part of the split then ends well, for all data are there
        with pytest.raises(sennit.Error) as caught:
            comm.split(0)
        gave_up.set()
        return caught.value

    late, left_alone = sennit.spawn(rank, 2, threads=True, deadline_s=0.2)
    assert type(late) is sennit.DeadlineExceeded
    assert type(left_alone) is sennit.DeadlineExceeded  # why rank 0 gave up
    assert left_alone.blamed_ranks == (0,)
    assert "rank 0 does not come to join" in str(left_alone)
