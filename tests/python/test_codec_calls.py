"""Calls with a codec from Python: what arrives is what the codec leaves, in every bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit
from sennit import codecs

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANKS = 3


def drawn(rank: int, count: int, dtype: str = "float32") -> NDArray[Any]:
    """Random numbers of a rank."""
    random = np.random.default_rng(rank)
    x = random.standard_normal(count)
    return (x + 1j * random.standard_normal(count) if "complex" in dtype else x).astype(dtype)


def passed(x: NDArray[Any], codec: str) -> NDArray[Any]:
    """What the codec leaves of an array."""
    y: Any = codecs.decode(codecs.encode(x, codec), codec, x.dtype, x.size)
    return np.asarray(y).reshape(x.shape)


@pytest.mark.parametrize("count", [1, 31, 1003])
@pytest.mark.parametrize(
    ("codec", "dtype"),
    [("q8", "float32"), ("zfp:16", "float64"), ("q16", "complex64"), ("mx8", "float16")],
)
def test_calls_give_what_the_codec_leaves(codec: str, dtype: str, count: int) -> None:
    def rank(comm: sennit.Communicator) -> None:
        mine = drawn(comm.rank, count, dtype)
        all_passed = np.stack([passed(drawn(r, count, dtype), codec) for r in range(RANKS)])
        np.testing.assert_array_equal(comm.all_gather(mine, codec=codec), all_passed)
        np.testing.assert_array_equal(
            comm.broadcast(mine.copy(), root=1, codec=codec), all_passed[1]
        )
        gathered = comm.gather(mine, root=0, codec=codec)
        if comm.rank == 0:
            np.testing.assert_array_equal(gathered[1:], all_passed[1:])
            np.testing.assert_array_equal(gathered[0], mine)
        in_place = np.zeros((RANKS, count), dtype)
        in_place[comm.rank] = mine
        comm.all_gather(in_place[comm.rank], in_place, codec=codec)
        np.testing.assert_array_equal(in_place, all_passed)

    sennit.spawn(rank, RANKS, threads=True)


def test_sums_are_those_of_what_the_codec_leaves() -> None:
    def rank(comm: sennit.Communicator) -> None:
        mine = drawn(comm.rank, 1000)
        wanted = sum(passed(drawn(r, 1000), "q8").astype(np.float64) for r in range(RANKS))
        small = comm.all_reduce(mine, codec="q8")
        np.testing.assert_allclose(small, wanted, rtol=1e-5, atol=1e-5)
        work = comm.start.all_reduce(mine, codec="q8")
        np.testing.assert_array_equal(work.wait(), small)
        large = comm.all_reduce(np.tile(mine, 20), codec="q8")
        assert not np.array_equal(large, comm.all_reduce(np.tile(mine, 20)))
        np.testing.assert_allclose(large, np.tile(wanted, 20), atol=0.1)

    sennit.spawn(rank, RANKS, threads=True)


def test_messages_and_blocks_of_their_own_lengths() -> None:
    def rank(comm: sennit.Communicator) -> None:
        x = drawn(comm.rank, 5000)
        if comm.rank == 0:
            comm.send(x, 1, codec="zfp:8")
        elif comm.rank == 1:
            got = comm.recv(np.empty(5000, np.float32), 0, codec="zfp:8")
            np.testing.assert_array_equal(got, passed(drawn(0, 5000), "zfp:8"))
        counts = [7, 0, 3000]
        mine = drawn(comm.rank, counts[comm.rank])
        out = comm.all_gather_v(mine, counts, codec="q8")
        wanted = np.concatenate([passed(drawn(r, n), "q8") for r, n in enumerate(counts)])
        np.testing.assert_array_equal(out, wanted)

    sennit.spawn(rank, RANKS, threads=True)


def test_rules_give_calls_a_codec_and_none_keeps_one_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SENNIT_CODEC", "q8")

    def rank(comm: sennit.Communicator) -> None:
        mine = drawn(comm.rank, 1000)
        exact = np.stack([drawn(r, 1000) for r in range(RANKS)])
        coded = np.stack([passed(x, "q8") for x in exact])
        np.testing.assert_array_equal(comm.all_gather(mine), coded)
        np.testing.assert_array_equal(comm.all_gather(mine, codec="none"), exact)
        integers = np.arange(1000, dtype=np.int32)
        np.testing.assert_array_equal(comm.all_gather(integers), np.tile(integers, (RANKS, 1)))
        np.testing.assert_array_equal(comm.broadcast(mine.copy()), exact[0])

    sennit.spawn(rank, RANKS, threads=True)


def test_what_cannot_be_is_refused_by_name() -> None:
    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(sennit.Unsupported, match="codec q8 does not take int32; it takes "):
            comm.all_gather(np.zeros(4, np.int32), codec="q8")
        with pytest.raises(sennit.Unsupported, match="cannot be reproducible with it"):
            comm.all_reduce(np.zeros(4, np.float32), codec="q8", reproducible=True)
        with pytest.raises(sennit.InvalidArgument, match="there is no codec 'q9'"):
            comm.all_reduce(np.zeros(4, np.float32), codec="q9")
        with pytest.raises(sennit.Unsupported, match="ring cannot have codec q8: "):
            comm.all_reduce(np.zeros(4, np.float32), codec="q8", algorithm="ring")
        comm.barrier()

    sennit.spawn(rank, RANKS, threads=True)


def test_ranks_with_different_codecs_are_named() -> None:
    def rank(comm: sennit.Communicator) -> None:
        x = np.zeros(100, np.float32)
        with pytest.raises(sennit.Mismatch, match=r"codec q8.*codec mx8|codec mx8.*codec q8"):
            comm.all_reduce(x, codec="q8" if comm.rank else "mx8")

    sennit.spawn(rank, RANKS, threads=True)
