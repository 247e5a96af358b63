"""Buffers in GPU memory, and streams: what is read of them, without a GPU (gpu_stand_ins.py)."""

from __future__ import annotations

import ctypes
import importlib.util
from typing import Any

import numpy as np
import pytest
import sennit
from gpu_stand_ins import CUDA, MANAGED, PINNED, CudaArray, DlpackArray, ExchangeArray
from sennit import _core

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"
)


def buffer_of(x: Any, *, writable: bool = False, stream: int | None = None) -> _core.Buffer:
    return _core.Buffer(x, "x", writable, None, stream)


@pytest.mark.parametrize("make", [CudaArray, DlpackArray, ExchangeArray])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u8", "c16", "bool"])
def test_arrays_in_gpu_memory_are_read_whatever_their_protocol(make: Any, dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    buffer = buffer_of(make(array), writable=True)
    assert buffer.is_on_gpu
    assert buffer.address == array.ctypes.data
    assert (buffer.shape, buffer.count, buffer.nbytes) == ((2, 3), 6, array.nbytes)
    assert buffer.dtype == array.dtype.name


def test_managed_memory_is_of_the_gpu_and_pinned_memory_of_the_host() -> None:
    assert buffer_of(DlpackArray(np.zeros(2), (MANAGED, 0))).is_on_gpu
    assert not buffer_of(DlpackArray(np.zeros(2), (PINNED, 0))).is_on_gpu


def test_an_array_without_elements_may_have_no_address() -> None:
    empty = CudaArray(np.zeros((0, 3)), data=(0, False), strides=(24, 8))
    assert buffer_of(empty).count == 0
    assert buffer_of(CudaArray(np.zeros(0), data=(None, False))).address == 0


def test_an_axis_of_one_has_any_stride() -> None:
    assert buffer_of(CudaArray(np.zeros((1, 4), "f4"), strides=(4, 4))).count == 4


@pytest.mark.parametrize(
    ("array", "error", "words"),
    [
        (CudaArray(np.zeros(4), data=(8, True)), sennit.InvalidArgument, "x is read-only"),
        (DlpackArray(np.zeros(4), is_read_only=True), sennit.InvalidArgument, "x is read-only"),
        (
            CudaArray(np.zeros((4, 2)), strides=(8, 32)),
            sennit.InvalidArgument,
            r"x is not C-contiguous; pass a contiguous copy of it \(of PyTorch x.contiguous\(\)",
        ),
        (DlpackArray(np.zeros((4, 2)).T), sennit.InvalidArgument, "x is not C-contiguous"),
        (ExchangeArray(np.zeros((4, 2)).T), sennit.InvalidArgument, "x is not C-contiguous"),
        (CudaArray(np.zeros(4), typestr=">f8"), sennit.InvalidArgument, "byte order of other"),
        (CudaArray(np.zeros(4), typestr="<V2"), sennit.Unsupported, "elements of type '<V2'"),
        (CudaArray(np.zeros(4), typestr="<f16"), sennit.Unsupported, "type float128"),
        (CudaArray(np.zeros(4), mask=1), sennit.InvalidArgument, "x has a mask"),
        (CudaArray(np.zeros(4), shape=None), sennit.InvalidArgument, "that has no 'shape'"),
        (CudaArray(np.zeros(4), shape=("a",)), sennit.InvalidArgument, "has 'shape' 'a'"),
        (CudaArray(np.zeros(4), data=8), sennit.InvalidArgument, "no tuple as 'data'"),
        (CudaArray(np.zeros(4), strides=(8, 8)), sennit.InvalidArgument, "'shape' and 'strides'"),
        (DlpackArray(np.zeros(4), (7, 0)), sennit.Unsupported, "device of DLPack's type 7"),
    ],
)
def test_what_no_call_can_use_is_refused_by_name(
    array: Any, error: type[sennit.Error], words: str
) -> None:
    with pytest.raises(error, match=words):
        buffer_of(array, writable=True)


@pytest.mark.parametrize(("said", "stream"), [(None, 0), (1, 0), (2, 2), (0x7F00, 0x7F00)])
def test_the_cuda_array_interface_names_its_stream(said: int | None, stream: int) -> None:
    assert buffer_of(CudaArray(np.zeros(4), stream=said)).stream == stream
    assert buffer_of(CudaArray(np.zeros(4))).stream == 0


def test_the_c_interface_is_asked_for_the_current_stream_of_the_device() -> None:
    ExchangeArray.current_streams.update({0: 0x100, 1: 0x200})
    try:
        first = buffer_of(ExchangeArray(np.zeros(4)))
        assert first.stream == 0x100
        assert buffer_of(ExchangeArray(np.zeros(4), (CUDA, 1))).stream == 0x200
        ExchangeArray.current_streams[0] = 0x300
        assert first.stream == 0x300
    finally:
        ExchangeArray.current_streams.clear()


@pytest.mark.parametrize(
    ("stream", "asked"), [(None, 1), (0, 1), (2, 2), (0x7F00, 0x7F00)], ids=str
)
def test_dlpack_is_asked_to_order_its_work_before_the_stream(
    stream: int | None, asked: int
) -> None:
    array = DlpackArray(np.zeros(4))
    buffer = buffer_of(array, stream=stream)
    assert array.streams == [asked]
    # One that the program names is the call's, whatever the library works on.
    assert buffer.stream == (0 if stream is None else None)


def test_host_memory_is_asked_for_no_stream() -> None:
    array = DlpackArray(np.zeros(4), (PINNED, 0))
    assert buffer_of(array, stream=7).stream is None
    assert array.streams == ["none asked for"]


class WithCudaStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0x123

    def __str__(self) -> str:
        return "WithCudaStream"


class Stream:
    """A stream of the library whose attribute it has."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __str__(self) -> str:
        return f"Stream({', '.join(self.__dict__)})"


@pytest.mark.parametrize(
    ("stream", "number"),
    [
        (0, 0),
        (1, 0),
        (2, 2),
        (np.uint64(2**47), 2**47),
        (WithCudaStream(), 0x123),
        (Stream(__cuda_stream__=(0, 0x124)), 0x124),
        (Stream(cuda_stream=0x125), 0x125),
        (Stream(ptr=0x126), 0x126),
        (Stream(handle=0x127), 0x127),
        (Stream(handle=ctypes.c_void_p(0x128)), 0x128),
        (Stream(handle=ctypes.c_void_p(0)), 0),
    ],
    ids=str,
)
def test_streams_of_all_libraries_are_taken(stream: Any, number: int) -> None:
    assert _core.stream_of(stream) == number


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (-1, "stream=-1 names no stream: in DLPack"),
        (-2, "stream=-2 is no cudaStream_t"),
        (2**80, "is no cudaStream_t"),
        ("main", r"stream \(str\) is no CUDA stream: pass a stream of PyTorch"),
        (1.5, r"stream \(float\) is no CUDA stream"),
        (Stream(__cuda_stream__=3), "gives no pair of version and handle"),
    ],
)
def test_what_is_no_stream_is_refused(stream: Any, words: str) -> None:
    with pytest.raises(sennit.InvalidArgument, match=words):
        sennit.spawn(lambda comm: comm.barrier(stream=stream), 1, threads=True)


@pytest.mark.parametrize(
    ("array", "where"),
    [
        (CudaArray(np.zeros(4)), "memory of a CUDA device"),
        (DlpackArray(np.zeros(4), (CUDA, 1)), "memory of cuda:1"),
        (ExchangeArray(np.zeros(4)), "memory of cuda:0"),
    ],
)
def test_host_ranks_name_the_buffer_that_is_in_gpu_memory(array: Any, where: str) -> None:
    host = np.zeros(4)
    for arguments, name in (((array, host), "x"), ((host, array), "out")):
        with pytest.raises(
            sennit.Unsupported, match=f"{name} is in {where}, but the ranks .* host"
        ):
            sennit.spawn(
                lambda comm, arguments=arguments: comm.all_reduce(*arguments), 1, threads=True
            )
    with pytest.raises(sennit.Unsupported, match=f"x is in {where}, but codecs work on host"):
        sennit.codecs.encode(array, "zfp:16")


def test_a_stream_is_for_gpu_ranks() -> None:
    with pytest.raises(sennit.InvalidUsage, match="a stream was passed"):
        sennit.spawn(lambda comm: comm.barrier(stream=0x40), 1, threads=True)


def test_host_ranks_say_where_they_are() -> None:
    def device(comm: sennit.Communicator) -> str:
        return comm.device

    assert sennit.spawn(device, 1, threads=True) == ["cpu"]
    assert sennit.spawn(device, 1, threads=True, device="host") == ["cpu"]
    assert sennit.spawn(device, 1, threads=True, device="cpu") == ["cpu"]
    with pytest.raises(sennit.InvalidArgument, match="the device is 'gpu'"):
        sennit.spawn(device, 1, threads=True, device="gpu")


@needs_torch
def test_tensors_of_pytorch_have_the_c_interface_and_views_of_them_are_checked() -> None:
    import torch

    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("torch: needs one with DLPack's C interface, 2.10 or later")
    tensor = torch.arange(6.0)
    parameter = torch.nn.Parameter(tensor, requires_grad=False)
    for x in (tensor, parameter, tensor[2:]):
        buffer = buffer_of(x, writable=True)
        assert (buffer.address, buffer.count) == (x.data_ptr(), x.numel())
    for x in (tensor[::2], torch.ones(2, 3).T):
        with pytest.raises(sennit.InvalidArgument, match="not C-contiguous"):
            buffer_of(x)
    assert buffer_of(torch.zeros(2, dtype=torch.bfloat16)).dtype == "bfloat16"


@needs_torch
def test_tensors_without_memory_of_their_own_are_refused() -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(4)
    with pytest.raises(sennit.InvalidArgument, match="x"):
        buffer_of(fake)
