"""The calls whose lengths vary: blocks arrive whole, wherever they lie, and mistakes are named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sennit

RANKS = 4
# Elements from rank s to rank d: zeros, and some that take several tiles.
COUNTS = [[(s * 7 + d * 3) % 5 * 1000 * (s + d) for d in range(RANKS)] for s in range(RANKS)]


def block(source: int, destination: int, dtype: str = "float32") -> np.ndarray:
    """What `source` has for `destination`."""
    count = COUNTS[source][destination]
    return (np.arange(count) % 97 + 1000 * source + 100 * destination).astype(dtype)


def joined(blocks: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(blocks)


@pytest.mark.parametrize("algorithm", [None, "pairwise"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_all_to_all_v_brings_every_block_to_its_place(algorithm: str | None, dtype: str) -> None:
    def rank(comm: sennit.Communicator) -> None:
        me = comm.rank
        x = joined([block(me, d, dtype) for d in range(RANKS)])
        received = [COUNTS[s][me] for s in range(RANKS)]
        out = comm.all_to_all_v(x, COUNTS[me], received, algorithm=algorithm)
        np.testing.assert_array_equal(out, joined([block(s, me, dtype) for s in range(RANKS)]))

        # The blocks that arrive lie in the opposite order.
        places = np.cumsum([0, *received[:0:-1]])[::-1]
        comm.all_to_all_v(x, COUNTS[me], received, out, recv_displacements=places)
        np.testing.assert_array_equal(
            out, joined([block(s, me, dtype) for s in reversed(range(RANKS))])
        )

    sennit.spawn(rank, RANKS, threads=True)


@pytest.mark.parametrize("algorithm", [None, "ring"])
def test_all_gather_v_gives_all_parts_to_all(algorithm: str | None) -> None:
    def rank(comm: sennit.Communicator) -> None:
        counts = [COUNTS[s][0] for s in range(RANKS)]
        expected = joined([block(s, 0) for s in range(RANKS)])
        out = comm.all_gather_v(block(comm.rank, 0), counts, algorithm=algorithm)
        np.testing.assert_array_equal(out, expected)

        # In place.
        places = [0, *itertools.accumulate(counts)]
        whole = np.zeros(places[-1], "float32")
        mine = whole[places[comm.rank] : places[comm.rank + 1]]
        mine[:] = block(comm.rank, 0)
        assert comm.all_gather_v(mine, counts, whole, algorithm=algorithm) is whole
        np.testing.assert_array_equal(whole, expected)

    sennit.spawn(rank, RANKS, threads=True)


@pytest.mark.parametrize("root", range(RANKS))
def test_gather_v_and_scatter_v_undo_each_other(root: int) -> None:
    def rank(comm: sennit.Communicator) -> None:
        here = comm.rank == root
        counts = [COUNTS[s][root] for s in range(RANKS)] if here else None
        mine = block(comm.rank, root)
        whole = comm.gather_v(mine, counts, root=root)
        assert (whole is None) != here
        if here:
            np.testing.assert_array_equal(whole, joined([block(s, root) for s in range(RANKS)]))
        out = None if here else np.empty_like(mine)
        np.testing.assert_array_equal(comm.scatter_v(whole, counts, out, root=root), mine)

    sennit.spawn(rank, RANKS, threads=True)


def test_they_can_be_started_and_grouped() -> None:
    def rank(comm: sennit.Communicator) -> None:
        me = comm.rank
        x = joined([block(me, d) for d in range(RANKS)])
        received = [COUNTS[s][me] for s in range(RANKS)]
        counts = [COUNTS[s][0] for s in range(RANKS)]
        exchange = comm.start.all_to_all_v(x, COUNTS[me], received)
        gathering = comm.start.all_gather_v(block(me, 0), counts)
        np.testing.assert_array_equal(exchange.wait(), joined([block(s, me) for s in range(RANKS)]))
        np.testing.assert_array_equal(gathering.wait(), joined([block(s, 0) for s in range(RANKS)]))
        with sennit.group():
            whole = comm.gather_v(block(me, 1), [COUNTS[s][1] for s in range(RANKS)], root=1)
            out = np.empty(COUNTS[2][me], "float32")
            parts = joined([block(2, d) for d in range(RANKS)])
            comm.scatter_v(parts, COUNTS[2], out, root=2)
        if me == 1:
            np.testing.assert_array_equal(whole, joined([block(s, 1) for s in range(RANKS)]))
        np.testing.assert_array_equal(out, block(2, me))

    sennit.spawn(rank, RANKS, threads=True)


def test_two_ranks_that_mean_different_lengths_are_named() -> None:
    def rank(comm: sennit.Communicator) -> str:
        received = [1, 1]
        if comm.rank == 1:
            received[0] = 2

        def call_twice() -> None:
            comm.all_to_all_v(np.zeros(2), [1, 1], received)
            comm.barrier()  # the error for a rank that could do its part

        with pytest.raises(sennit.Mismatch) as caught:
            call_twice()
        return caught.value.evidence

    errors = sennit.spawn(rank, 2, threads=True)
    assert any("sends 1 elements to rank 1" in text and "expects 2" in text for text in errors)


@pytest.mark.parametrize(
    ("counts", "displacements", "why"),
    [
        (None, None, "needs counts"),
        ([1, 2], None, "2 counts for 1 ranks"),
        ([-1], None, "cannot be negative"),
        ([2], [0, 1], "2 displacements for 1 ranks"),
        ([2], [7], "its blocks end at 9"),
    ],
)
def test_what_is_no_table_of_blocks_is_refused(
    counts: list[int], displacements: list[int] | None, why: str
) -> None:
    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(sennit.InvalidArgument, match=why):
            comm.all_gather_v(np.zeros(2), counts, np.zeros(8), displacements=displacements)
        comm.barrier()

    sennit.spawn(rank, 1, threads=True)


def test_what_passes_blocks_on_is_refused_by_name() -> None:
    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(sennit.Unsupported, match="gather binomial cannot run where the length"):
            comm.gather_v(np.zeros(1), [1] * comm.size, algorithm="binomial")

    sennit.spawn(rank, RANKS, threads=True)
