"""What may be passed as a buffer, and how the rest is refused."""

from __future__ import annotations

import array
import ctypes
import importlib.util
import mmap
import multiprocessing
from typing import Any

import numpy as np
import pytest
import sennit

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"
)


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


class WithoutStrides(ctypes.Structure):
    """A managed tensor of DLPack; `strides` NULL means C order."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )

    def __dlpack__(self) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self), b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def test_dlpack_without_strides_and_versions_is_taken() -> None:
    values = np.arange(7, dtype=np.float32)
    shape = (ctypes.c_int64 * 2)(2, 3)
    tensor = WithoutStrides(
        data=values.ctypes.data, device_type=1, ndim=2, code=2, bits=32, lanes=1, byte_offset=4
    )
    tensor.shape = shape

    def rank(comm: sennit.Communicator) -> list[list[float]]:
        return comm.all_reduce(tensor).tolist()  # type: ignore[no-any-return]

    assert sennit.spawn(rank, 1, threads=True) == [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]


def test_an_element_type_that_is_not_known_is_named_as_dlpack_does() -> None:
    bits = np.zeros(3, np.uint8)
    x = WithoutStrides(data=bits.ctypes.data, device_type=1, ndim=1, code=11, bits=8, lanes=1)
    x.shape = (ctypes.c_int64 * 1)(3)
    with pytest.raises(sennit.Unsupported, match="type number 11 of DLPack, of 8 bits"):
        sennit.spawn(lambda comm: comm.all_reduce(x), 1, threads=True)


def test_buffers_without_strides_are_taken_in_c_order() -> None:
    rows = (ctypes.c_float * 3) * 2

    def rank(comm: sennit.Communicator) -> Any:
        x = rows((ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 3)(4, 5, comm.rank))
        comm.all_reduce(x, x)
        raw = multiprocessing.RawArray("d", 3)
        raw[:] = [comm.rank, 1, 2]
        number = ctypes.c_int64(comm.rank + 1)
        return [list(row) for row in x], comm.all_reduce(raw).tolist(), comm.all_reduce(number)

    for x, raw, number in sennit.spawn(rank, 2, threads=True):
        assert x == [[2, 4, 6], [8, 10, 1]]
        assert raw == [1.0, 2.0, 4.0]
        assert number == 3


def anonymous_map(data: bytes) -> mmap.mmap:
    memory = mmap.mmap(-1, len(data))
    memory[:] = data
    return memory


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda data: ctypes.create_string_buffer(data, len(data)), id="ctypes"),
        pytest.param(anonymous_map, id="mmap"),
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


class Refusing:
    """A tensor that has a reason."""

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("it is elsewhere")


def read_only() -> Any:
    out = np.zeros(4)
    out.flags.writeable = False
    return out


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.ones((4, 4))[:, ::2],), sennit.InvalidArgument, "x is not C-contiguous"),
        ((np.ones((4, 3)).T,), sennit.InvalidArgument, "numpy.ascontiguousarray"),
        ((np.ones(4, np.longdouble),), sennit.Unsupported, "x has elements of type .*float"),
        ((np.ones(4, ">f8"),), sennit.InvalidArgument, "x .* byte order of other machines"),
        ((memoryview(np.ones(4, ">f8").data),), sennit.InvalidArgument, r"numpy\.asarray\(x\)"),
        ((np.frombuffer(bytes(50), "f8,i2")["f0"],), sennit.InvalidArgument, "not C-contiguous"),
        ((np.ma.array([1.0, 2.0], mask=[False, True]),), sennit.InvalidArgument, "x has a mask"),
        ((np.array(["text"]),), sennit.InvalidArgument, "elements are of type <U4"),
        ((np.zeros(2, "f4,i4"),), sennit.InvalidArgument, "no array of numbers"),
        ((np.zeros(2, "M8[s]"),), sennit.InvalidArgument, r"type datetime64\[s\]"),
        ((Refusing(),), sennit.InvalidArgument, "does not export its memory: it is elsewhere"),
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


LAZY = {
    "conjugated": "torch.tensor([1 + 2j]).conj()",
    "negated": "torch._neg_view(torch.ones(1))",
    "zero": "torch._efficientzerotensor(3)",
    "requires_grad": "torch.ones(1, requires_grad=True)",
    "sparse": "torch.eye(3).to_sparse()",
    "meta": "torch.ones(3, device='meta')",
}


@needs_torch
@pytest.mark.parametrize("kind", LAZY)
def test_tensors_whose_memory_is_not_their_value_are_refused(kind: str) -> None:
    import torch

    tensor = eval(LAZY[kind], {"torch": torch})
    plain = torch.zeros(tensor.shape, dtype=tensor.dtype)
    for arguments in ((tensor,), (tensor, tensor), (plain, tensor)):
        with pytest.raises(sennit.InvalidArgument, match=r"pass |Pass "):
            sennit.spawn(
                lambda comm, arguments=arguments: comm.all_reduce(*arguments), 1, threads=True
            )


@needs_torch
def test_tensors_are_used_in_place() -> None:
    import torch

    def rank(comm: sennit.Communicator) -> Any:
        x = torch.full((2, 3), 2.0, dtype=torch.bfloat16)
        comm.all_reduce(x, x)
        return x.tolist()

    assert sennit.spawn(rank, 2, threads=True) == [[[4.0] * 3] * 2] * 2


def test_numbers_of_numpy_are_roots_colours_and_flags() -> None:
    # Any: the annotations promise less than what is taken.
    two: Any = np.int64(2)

    def rank(comm: Any) -> list[Any]:
        one = np.int64(1)
        x = np.full(2, comm.rank)
        comm.broadcast(x, one)
        whole = comm.gather(x, root=one)
        part = comm.scatter(whole, np.zeros(2, int), root=one)
        half = comm.split(np.int32(0), np.uint8(comm.rank))
        assert half is not None
        if comm.rank == one:
            comm.send(x, np.int64(0), deadline_s=np.float32(10))
        else:
            comm.recv(x, one)
        total = comm.all_reduce(x, reproducible=np.bool_(True), deadline_s=np.float64(10))
        return [x.tolist(), part.tolist(), half.size, total.tolist()]

    assert sennit.spawn(rank, two, threads=True) == [[[1, 1], [1, 1], 2, [2, 2]]] * 2
