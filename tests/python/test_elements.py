"""Element types and operators, as NumPy knows them and beyond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sennit
from sennit import _core

NUMPY_TYPES = [name for name in _core.DTYPES if not name.startswith(("bfloat", "float8"))]

REDUCTIONS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def contribution(rank: int, dtype: str) -> Any:
    return ((np.arange(40) + 3 * rank) % 5).astype(dtype)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
def test_every_operator_is_numpys_or_refused_by_name(dtype: str) -> None:
    inputs = np.stack([contribution(rank, dtype) for rank in range(3)])

    def rank(comm: sennit.Communicator) -> int:
        admitted = 0
        for op, function in REDUCTIONS.items():
            try:
                out = comm.all_reduce(inputs[comm.rank], op=op)
            except sennit.Unsupported as error:
                assert f"there is no {op} of {dtype}" in str(error)  # noqa: PT017
                continue
            expected = function.reduce(inputs, axis=0, dtype=None)
            np.testing.assert_array_equal(out, expected.astype(dtype))
            assert out.dtype == np.dtype(dtype)
            admitted += 1
        return admitted

    kind = np.dtype(dtype).kind
    assert sennit.spawn(rank, 3, threads=True) == [{"c": 2, "f": 4}.get(kind, 10)] * 3


@pytest.mark.parametrize("dtype", [name for name in NUMPY_TYPES if name != "bool"])
def test_avg_divides_the_sum(dtype: str) -> None:
    inputs = np.stack([contribution(rank, dtype) for rank in range(3)])
    wide = inputs.sum(axis=0, dtype=np.int64 if np.dtype(dtype).kind in "iu" else None)
    expected = (wide // 3 if np.dtype(dtype).kind in "iu" else wide / 3).astype(dtype)

    def rank(comm: sennit.Communicator) -> None:
        out = comm.all_reduce(inputs[comm.rank], op="avg")
        np.testing.assert_allclose(out, expected, rtol=1e-3)

    sennit.spawn(rank, 3, threads=True)


def test_the_avg_of_integers_is_that_of_a_sum_that_wraps() -> None:
    def rank(comm: sennit.Communicator) -> None:
        mean = comm.all_reduce(np.full(8, 100, np.int8), op="avg", algorithm="ring")
        np.testing.assert_array_equal(mean, np.full(8, (300 - 256) // 3, np.int8))

    sennit.spawn(rank, 3, threads=True)


def test_premulsum_takes_a_factor_of_each_rank() -> None:
    def rank(comm: sennit.Communicator) -> list[float]:
        op = sennit.premulsum(comm.rank + 1)
        x = np.array([1.0, 2.0], np.float32)
        with sennit.group():
            out = np.empty_like(x)
            comm.all_reduce(x, out, op=op)
        assert comm.all_reduce(x.astype(np.int16), op=op).tolist() == [6, 12]
        assert comm.reduce_scatter(np.ones((3, 2)), op=sennit.premulsum(0.5)).tolist() == [1.5, 1.5]
        return out.tolist()  # type: ignore[no-any-return]

    assert sennit.spawn(rank, 3, threads=True) == [[6.0, 12.0]] * 3


@pytest.mark.parametrize(
    ("factor", "dtype", "words"),
    [
        (1.5, np.int32, "1.5 of premulsum is no int32"),
        (300, np.uint8, "is no uint8"),
        ("two", np.float32, "is no float32"),
        (1, bool, "there is no premul_sum of bool"),
    ],
)
def test_a_factor_that_is_no_element_is_refused(factor: Any, dtype: Any, words: str) -> None:
    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(sennit.Error, match=words):
            comm.all_reduce(np.ones(2, dtype), op=sennit.premulsum(factor))

    sennit.spawn(rank, 1, threads=True)


def bfloat16(numbers: list[float]) -> sennit.Typed:
    bits = np.array(numbers, np.float32).view(np.uint32) >> 16
    return sennit.typed(bits.astype(np.uint16), "bfloat16")


def test_bits_of_types_that_numpy_lacks_are_reduced_as_such() -> None:
    def rank(comm: sennit.Communicator) -> None:
        out = comm.all_reduce(bfloat16([1.0, comm.rank, -2.5]))
        assert out.dtype == "bfloat16"
        np.testing.assert_array_equal(out.array, bfloat16([3.0, 3.0, -7.5]).array)
        comm.all_reduce(
            bfloat16([1.0]), out_of_two := bfloat16([0.0]), op=sennit.premulsum(bfloat16([2]))
        )
        np.testing.assert_array_equal(out_of_two.array, bfloat16([6.0]).array)
        # 448 + 448 + 448 in eight bits stays the largest number.
        x = sennit.typed(np.array([0x7E, 0x38], np.uint8), "float8_e4m3fn")
        np.testing.assert_array_equal(comm.all_reduce(x).array, [0x7E, 0x44])

    sennit.spawn(rank, 3, threads=True)


def test_ml_dtypes_are_taken_as_they_are() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes: needs the package ml_dtypes")

    def rank(comm: sennit.Communicator) -> None:
        for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
            out = comm.all_reduce(np.array([1.0, 2.0], dtype), op=sennit.premulsum(2))
            assert out.dtype == dtype
            assert out.astype(np.float32).tolist() == [4.0, 8.0]

    sennit.spawn(rank, 2, threads=True)


def test_what_typed_cannot_carry_is_refused() -> None:
    with pytest.raises(sennit.InvalidArgument, match="bfloat16 in uint16"):
        sennit.typed(np.zeros(2, np.float32), "bfloat16")


def test_reproducible_calls_refuse_other_orders_by_name() -> None:
    def rank(comm: sennit.Communicator) -> None:
        x = np.full(5, 0.1) * (comm.rank + 1)
        expected = (np.full(5, 0.1) + np.full(5, 0.1) * 2) + np.full(5, 0.1) * 3
        np.testing.assert_array_equal(comm.all_reduce(x, reproducible=True), expected)
        with pytest.raises(sennit.Unsupported, match="ring"):
            comm.all_reduce(x, algorithm="ring", reproducible=True)

    sennit.spawn(rank, 3, threads=True)
