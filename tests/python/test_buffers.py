"""What may be passed as a buffer, and how the rest is refused."""

from __future__ import annotations

import array
from typing import Any

import numpy as np
import pytest
import sennit


class DlpackOnly:
    """A tensor of some other library: nothing but DLPack."""

    def __init__(self, values: list[float]) -> None:
        self.array = np.array(values, np.float32)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_tensors_are_used_in_place() -> None:
    def rank(comm: sennit.Communicator) -> list[float]:
        x = DlpackOnly([comm.rank, 1.0])
        assert comm.all_reduce(x, x) is x
        return x.array.tolist()  # type: ignore[no-any-return]

    assert sennit.spawn(rank, 3, threads=True) == [[3.0, 3.0]] * 3


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(bytearray, id="bytearray"),
        pytest.param(lambda data: memoryview(bytearray(data)), id="memoryview"),
        pytest.param(lambda data: array.array("B", data), id="array"),
    ],
)
def test_objects_with_the_buffer_protocol_are_used_in_place(make: Any) -> None:
    def rank(comm: sennit.Communicator) -> bytes:
        buffer = make(b"root" if comm.rank == 1 else b"....")
        comm.broadcast(buffer, root=1)
        return bytes(buffer)

    assert sennit.spawn(rank, 2, threads=True) == [b"root"] * 2


def test_a_read_only_input_is_no_error() -> None:
    def rank(comm: sennit.Communicator) -> bytes:
        return comm.all_reduce(b"\x01\x02").tobytes()  # type: ignore[no-any-return]

    assert sennit.spawn(rank, 2, threads=True) == [b"\x02\x04"] * 2


def read_only() -> Any:
    out = np.zeros(4)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.ones((4, 4))[:, ::2],), sennit.InvalidArgument, "x is not C-contiguous"),
        ((np.ones((4, 3)).T,), sennit.InvalidArgument, "numpy.ascontiguousarray"),
        ((np.ones(4, np.longdouble),), sennit.InvalidArgument, r"x \(ndarray\) is no array"),
        ((np.ones(4), read_only()), sennit.InvalidArgument, "out is read-only"),
        ((np.ones(4), np.ones(5)), sennit.InvalidArgument, "out has 5 elements"),
        ((np.ones(4), np.ones(4, np.int64)), sennit.InvalidArgument, "x is float64, but out is"),
        (("text",), sennit.InvalidArgument, r"x \(str\) is no array"),
        ((3,), sennit.InvalidArgument, r"x \(int\) is no array"),
        ((np.array([object()]),), sennit.InvalidArgument, r"x \(ndarray\) is no array"),
    ],
)
def test_what_is_no_usable_buffer_is_refused_by_name(
    arguments: tuple[Any, ...], error: type[sennit.Error], words: str
) -> None:
    with pytest.raises(error, match=words):
        sennit.spawn(lambda comm: comm.all_reduce(*arguments), 1, threads=True)


def test_a_first_axis_that_ranks_cannot_share_is_refused() -> None:
    for name in ("reduce_scatter", "all_to_all"):
        with pytest.raises(sennit.InvalidArgument, match="multiple of the 2 ranks"):
            sennit.spawn(lambda comm, name=name: getattr(comm, name)(np.ones(3)), 2, threads=True)


def test_scatter_needs_an_output_where_the_shape_is_not_known() -> None:
    def rank(comm: sennit.Communicator) -> None:
        if comm.rank == 1:
            with pytest.raises(sennit.InvalidArgument, match="scatter needs out on rank 1"):
                comm.scatter()

    sennit.spawn(rank, 2, threads=True)
