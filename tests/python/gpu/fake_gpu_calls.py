"""Calls of GPU ranks from Python on fake GPUs (tests/python/fake_gpus.cpp).

tests/python/test_fake_gpus.py runs it under pytest with that library preloaded. Ranks are threads.
The fakes' memory is host memory, so that NumPy can look into it; a stream is a thread.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit
from gpu_stand_ins import CUDA, CudaArray, DlpackArray, ExchangeArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RANKS = 2
TOGETHER = threading.Barrier(RANKS, timeout=20)
"""Of the ranks, other than Sennit's own."""
LIBRARY = ctypes.CDLL(os.environ["LD_PRELOAD"])
for name in ("fake_stream", "fake_close", "fake_end_capture", "fake_last_stream"):
    getattr(LIBRARY, name).restype = ctypes.c_void_p
LIBRARY.fake_faults.restype = ctypes.c_char_p


def address(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)


def memory(comm: sennit.Communicator, shape: Any, dtype: Any = np.uint8) -> Any:
    """An array of NumPy in memory of the rank's GPU."""
    lengths = (shape,) if isinstance(shape, int) else shape
    data = ctypes.c_void_p()
    count = math.prod(lengths)
    bytes_ = ctypes.c_size_t(count * np.dtype(dtype).itemsize)
    status = LIBRARY.sennit_mem_alloc_on(ctypes.byref(data), bytes_, comm.device.encode())
    assert status == 0
    assert data.value is not None
    raw = (ctypes.c_char * bytes_.value).from_address(data.value)
    return np.frombuffer(memoryview(raw), dtype).reshape(lengths)


class Gpu:
    """What a rank does on its GPU outside of calls."""

    def __init__(self, comm: sennit.Communicator) -> None:
        self.comm = comm
        self.stream = LIBRARY.fake_stream()

    def array(self, values: Any, dtype: Any = np.uint8) -> CudaArray:
        """An array whose library works on the stream of this object."""
        values = np.asarray(values, dtype)
        array = memory(self.comm, values.shape, dtype)
        array[...] = values
        return CudaArray(array, stream=self.stream)

    def synchronize(self) -> None:
        LIBRARY.fake_synchronize(address(self.stream))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing in the stream begin before the end of the block."""
        word = LIBRARY.fake_close(address(self.stream))
        try:
            yield
        finally:
            LIBRARY.fake_open(address(word))


def on_gpus(body: Callable[[sennit.Communicator, Gpu], Any]) -> Callable[[], None]:
    """A test whose body runs on two GPU ranks."""

    def rank(comm: sennit.Communicator) -> None:
        LIBRARY.fake_use_device(comm.rank)
        assert comm.device == f"cuda:{comm.rank}"
        body(comm, Gpu(comm))

    @functools.wraps(body)
    def test() -> None:
        sennit.spawn(rank, RANKS, threads=True, device="cuda")
        assert LIBRARY.fake_faults() == b""

    del test.__wrapped__  # pytest would look for its arguments
    return test


@on_gpus
def test_every_call_moves_gpu_memory(comm: sennit.Communicator, gpu: Gpu) -> None:
    mine = gpu.array([1.5 + comm.rank, 3], np.float32)
    both = gpu.array(np.zeros((2, 2)), np.float32)
    each = [[1.5, 3], [2.5, 3]]
    bytes_ = gpu.array([1, 2, 3, 4 + comm.rank])
    part = gpu.array([0, 0])

    def holds(array: CudaArray, values: Any) -> None:
        gpu.synchronize()
        assert array.array.tolist() == values
        array.array[...] = 0

    assert comm.all_gather(mine, both) is both
    holds(both, each)
    comm.gather(mine, both, root=1)
    holds(both, each if comm.rank == 1 else [[0, 0], [0, 0]])
    comm.all_gather_v(mine, [2, 2], both)
    holds(both, each)
    comm.reduce_scatter(bytes_, part)
    holds(part, [[2, 4], [6, 9]][comm.rank])
    comm.reduce(bytes_, bytes_, root=1)
    if comm.rank == 1:
        holds(bytes_, [2, 4, 6, 9])
    both.array[...] = [[1, 2], [3, 4]]
    two = gpu.array(np.zeros((2, 2)), np.float32)
    comm.all_to_all(both, two)
    holds(two, [[1, 2], [1, 2]] if comm.rank == 0 else [[3, 4], [3, 4]])
    comm.scatter(both, mine)
    holds(mine, [[1, 2], [3, 4]][comm.rank])
    mine.array[...] = comm.rank
    comm.broadcast(mine, root=1)
    holds(mine, [1, 1])
    comm.barrier()


@on_gpus
def test_a_call_is_enqueued_and_nothing_is_synchronized(
    comm: sennit.Communicator, gpu: Gpu
) -> None:
    x = gpu.array([1, 2])
    before = LIBRARY.fake_calls(b"synchronize")  # of both ranks
    TOGETHER.wait()
    with gpu.held():
        comm.all_reduce(x, x)
        assert x.array.tolist() == [1, 2]
        with sennit.group():
            comm.all_reduce(x, x)
    assert LIBRARY.fake_calls(b"synchronize") == before
    TOGETHER.wait()
    gpu.synchronize()
    assert x.array.tolist() == [4, 8]


@on_gpus
def test_a_work_is_an_event_behind_its_call(comm: sennit.Communicator, gpu: Gpu) -> None:
    x = gpu.array([1, 2])
    with gpu.held():
        work = comm.start.all_reduce(x, x)
        assert not work.test()
        with pytest.raises(sennit.InProgress):
            work.wait(0.01)
    assert work.wait() is x
    assert x.array.tolist() == [2, 4]
    assert work.test()


@on_gpus
def test_a_dropped_work_is_not_waited_for(comm: sennit.Communicator, gpu: Gpu) -> None:
    x = gpu.array([1, 2])
    with gpu.held():
        comm.start.all_reduce(x, x)
        comm.start.all_reduce(x, x)
        assert x.array.tolist() == [1, 2]
    comm.start.all_reduce(x, x).wait()
    assert x.array.tolist() == [8, 16]


@on_gpus
def test_messages_of_a_group_run_together(comm: sennit.Communicator, gpu: Gpu) -> None:
    mine = gpu.array([comm.rank] * 3, np.int64)
    theirs = gpu.array([9] * 3, np.int64)
    with sennit.group():
        comm.send(mine, 1 - comm.rank)
        work = comm.start.recv(theirs, 1 - comm.rank)
    work.wait()
    assert theirs.array.tolist() == [1 - comm.rank] * 3


def last_stream_of(comm: sennit.Communicator, call: Callable[[], Any]) -> int | None:
    """The stream of a call; the ranks, of one process, take turns to look."""
    found = None
    for turn in range(RANKS):
        TOGETHER.wait()
        if turn == comm.rank:
            call()
            found = LIBRARY.fake_last_stream()
        TOGETHER.wait()
    return found


@on_gpus
def test_the_stream_is_that_of_the_library_or_the_one_that_is_passed(
    comm: sennit.Communicator, gpu: Gpu
) -> None:
    other = Gpu(comm)
    x = gpu.array([1, 2])
    cases: list[tuple[Any, Any, int | None]] = [
        (x, None, gpu.stream),
        (x, other.stream, other.stream),
        (CudaArray(x.array), None, None),
        (x, 0, None),
        (DlpackArray(x.array, (CUDA, comm.rank)), None, None),
        (DlpackArray(x.array, (CUDA, comm.rank)), other.stream, other.stream),
        (ExchangeArray(x.array, (CUDA, comm.rank)), None, other.stream),
    ]
    ExchangeArray.current_streams[comm.rank] = other.stream
    for array, stream, expected in cases:
        call = functools.partial(comm.all_reduce, array, array, stream=stream)
        assert last_stream_of(comm, call) == expected
    # The last buffers were of a library that can be asked, and then of one that cannot.
    assert last_stream_of(comm, comm.barrier) == other.stream
    assert last_stream_of(comm, lambda: comm.all_reduce(x, x)) == gpu.stream
    assert last_stream_of(comm, comm.barrier) is None


@on_gpus
def test_buffers_of_different_streams_are_refused(comm: sennit.Communicator, gpu: Gpu) -> None:
    x, out = gpu.array([1]), Gpu(comm).array([1])
    with pytest.raises(sennit.InvalidArgument, match="x and out come from libraries that work on"):
        comm.all_reduce(x, out)
    comm.all_reduce(x, out, stream=gpu.stream)


@on_gpus
def test_memory_of_elsewhere_is_refused_by_name(comm: sennit.Communicator, gpu: Gpu) -> None:
    x = gpu.array([1, 2])
    host = np.ones(2, np.uint8)
    cannot = "ordinary host memory"
    for arguments, its_name in (((x, host), "out"), ((host, x), "x"), ((host,), "x")):
        with pytest.raises(sennit.InvalidArgument, match=f"{its_name} is ordinary host memory"):
            comm.all_reduce(*arguments)
    for arguments in ((x, host), (host, x)):
        with pytest.raises(sennit.InvalidArgument, match=cannot), sennit.group():
            comm.all_reduce(*arguments)
    there = DlpackArray(x.array, (CUDA, 1 - comm.rank))
    words = f"x is in memory of cuda:{1 - comm.rank}, but this rank works on cuda:{comm.rank}"
    with pytest.raises(sennit.InvalidArgument, match=words):
        comm.all_reduce(there, x)
    # What is read of an array without a device shows only at the call.
    TOGETHER.wait()
    SHARED[comm.rank] = x
    TOGETHER.wait()
    with pytest.raises(sennit.InvalidArgument, match=f"out lies on device {1 - comm.rank}, but"):
        comm.all_reduce(x, SHARED[1 - comm.rank], stream=gpu.stream)
    TOGETHER.wait()
    comm.all_reduce(x, x)


SHARED: dict[int, Any] = {}


@on_gpus
def test_new_outputs_are_of_the_library_of_the_input(comm: sennit.Communicator, gpu: Gpu) -> None:
    with pytest.raises(sennit.InvalidArgument, match=r"x is a CudaArray in GPU memory.*pass out"):
        comm.all_reduce(gpu.array([1]))
    TOGETHER.wait()

    class Array(CudaArray):
        dtype = np.dtype(np.uint8)
        device = contextlib.nullcontext()

    def empty(shape: tuple[int, ...], dtype: Any) -> Any:
        return Array(memory(comm, shape, dtype), stream=gpu.stream)

    if comm.rank == 0:  # what this process has as CuPy is one rank's
        cupy: Any = types.SimpleNamespace(ndarray=CudaArray, empty=empty, cuda=None)
        sys.modules["cupy"] = cupy
    try:
        if comm.rank == 0:
            x = Array(gpu.array([3, 4]).array, stream=gpu.stream)
            out = comm.all_gather(x)
            assert isinstance(out, Array)
        else:
            out = gpu.array(np.zeros((2, 2)))
            comm.all_gather(gpu.array([5, 6]), out)
        gpu.synchronize()
        assert out.array.tolist() == [[3, 4], [5, 6]]
    finally:
        TOGETHER.wait()
        sys.modules.pop("cupy", None)


@on_gpus
def test_calls_are_captured(comm: sennit.Communicator, gpu: Gpu) -> None:
    x = gpu.array([1, 2])
    comm.all_reduce(x, x)
    gpu.synchronize()
    LIBRARY.fake_begin_capture(address(gpu.stream))
    comm.all_reduce(x, x)
    with pytest.raises(sennit.InvalidUsage, match="captur"):
        comm.start.all_reduce(x, x)
    graph = LIBRARY.fake_end_capture(address(gpu.stream))
    gpu.synchronize()
    assert x.array.tolist() == [2, 4]
    for _ in range(2):
        LIBRARY.fake_launch(address(graph), address(gpu.stream))
    gpu.synchronize()
    assert x.array.tolist() == [8, 16]


@on_gpus
def test_a_sum_is_normalised_by_rows(comm: sennit.Communicator, gpu: Gpu) -> None:
    """The fakes do so with bytes (exec/sm/testing/fake_norming_kernel.hpp)."""
    x = [np.arange(48).reshape(3, 16) + 7 * rank for rank in range(RANKS)]
    bytes_of = [part.astype(np.uint8) for part in x]
    weight = gpu.array(np.full(8, 3 * 257), np.uint16)
    residual = gpu.array(np.full((3, 8), 5 * 257), np.uint16)
    mine = gpu.array(bytes_of[comm.rank].view(np.uint16), np.uint16)
    halves = [
        CudaArray(array.array.view(np.float16), stream=gpu.stream)
        for array in (mine, residual, weight)
    ]
    out = gpu.array(np.zeros((3, 8)), np.float16)
    norm = sennit.RmsNorm(halves[2], residual=halves[1])
    assert comm.all_reduce(halves[0], out, rms_norm=norm) is out
    gpu.synchronize()
    total = bytes_of[0] + bytes_of[1] + np.uint8(5)
    assert np.array_equal(residual.array.view(np.uint8), total)
    rows = total + total.sum(1, dtype=np.uint8, keepdims=True)
    assert np.array_equal(out.array.view(np.uint8), rows ^ np.uint8(3))
    for norm, words in (
        (sennit.RmsNorm(CudaArray(weight.array.view(np.float16)[:4])), "weight of rms_norm has 4"),
        (sennit.RmsNorm(quantized=halves[1]), "quantized of rms_norm has 24 elements of float16"),
        (sennit.RmsNorm(np.ones(8, np.float16)), "weight buffer is ordinary host memory"),
        (sennit.RmsNorm(epsilon=-1), "epsilon is -1"),
    ):
        with pytest.raises(sennit.InvalidArgument, match=words):
            comm.all_reduce(halves[0], out, rms_norm=norm, stream=gpu.stream)


@on_gpus
def test_parts_of_a_communicator_are_of_the_same_gpus(comm: sennit.Communicator, gpu: Gpu) -> None:
    half = comm.split(comm.rank)
    assert half is not None
    assert (half.device, half.size) == (comm.device, 1)
    x = gpu.array([7])
    half.all_reduce(x, x)
    gpu.synchronize()
    assert x.array.tolist() == [7]


def sum_of_ranks(comm: sennit.Communicator) -> list[int]:
    LIBRARY.fake_use_device(comm.rank)
    gpu = Gpu(comm)
    x = gpu.array([comm.rank + 1] * 3)
    comm.start.all_reduce(x, x).wait()
    return x.array.tolist()  # type: ignore[no-any-return]


def test_processes_have_the_gpu_of_their_number() -> None:
    assert sennit.spawn(sum_of_ranks, RANKS, device="cuda") == [[3, 3, 3]] * RANKS


def test_more_ranks_than_gpus_are_refused() -> None:
    words = "the device is 'cuda:2', but this process sees 2 GPUs"
    with pytest.raises(sennit.InvalidArgument, match=words):
        sennit.spawn(lambda comm: comm.rank, 3, threads=True, device="cuda")
