"""The backend `sennit` of PyTorch on tensors in GPU memory, on fake GPUs.

tests/python/test_fake_gpus.py runs it under pytest with tests/python/fake_gpus.cpp preloaded. What
PyTorch sees of CUDA comes from tests/python/fake_devices.cpp. Ranks are threads with a group each.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import functools
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit.torch
import torch
import torch.distributed as dist
from gpu_stand_ins import CUDA, DlpackArray
from sennit.torch.backend import create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RANKS = 2
TOGETHER = threading.Barrier(RANKS, timeout=20)
GPUS = ctypes.CDLL(os.environ["LD_PRELOAD"])
for name in ("fake_close", "fake_last_stream"):
    getattr(GPUS, name).restype = ctypes.c_void_p
GPUS.fake_faults.restype = ctypes.c_char_p


def loaded_devices() -> ctypes.CDLL:
    """The fake devices, compiled for the PyTorch that is here."""
    source = Path(__file__).resolve().parents[1] / "fake_devices.cpp"
    library = Path(os.environ["FAKE_DEVICES_FOLDER"]) / "fake_devices.so"
    folder = Path(torch.__file__).parent
    subprocess.run(
        [
            *("g++", "-std=c++20", "-shared", "-fPIC", str(source), "-o", str(library)),
            *("-isystem", str(folder / "include"), f"-L{folder / 'lib'}", "-lc10"),
        ],
        check=True,
    )
    found = ctypes.CDLL(str(library))
    found.fake_devices_use.restype = ctypes.c_void_p
    return found


DEVICES = loaded_devices()
torch.cuda._initialized = True  # the devices need none of what PyTorch would do now


class Rank:
    """A thread with a group, and a device whose current stream is its own."""

    def __init__(self, rank: int, store: dist.Store) -> None:
        self.rank = rank
        GPUS.fake_use_device(rank)
        self.stream = ctypes.c_void_p(DEVICES.fake_devices_use(rank))
        options = dist.distributed_c10d._DistributedBackendOptions()
        options.store, options.group_rank, options.group_size = store, rank, RANKS
        options.timeout = datetime.timedelta(seconds=20)
        self.group = create(options)

    def tensor(self, *values: int) -> tuple[torch.Tensor, Any]:
        """A tensor in memory of the GPU, and the same memory as NumPy has it."""
        data = ctypes.c_void_p()
        device = f"cuda:{self.rank}".encode()
        assert (
            GPUS.sennit_mem_alloc_on(ctypes.byref(data), ctypes.c_size_t(len(values)), device) == 0
        )
        assert data.value is not None
        raw = (ctypes.c_char * len(values)).from_address(data.value)
        array = np.frombuffer(memoryview(raw), np.uint8)
        array[...] = values
        capsule = DlpackArray(array, (CUDA, self.rank)).__dlpack__(max_version=(1, 0))
        return torch.utils.dlpack.from_dlpack(capsule), array

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let nothing in the current streams begin before the end of the block, on both ranks."""
        TOGETHER.wait()
        word = GPUS.fake_close(self.stream)
        try:
            yield
            TOGETHER.wait()
        finally:
            GPUS.fake_open(ctypes.c_void_p(word))

    def synchronize(self) -> None:
        """Wait for the current stream."""
        GPUS.fake_synchronize(self.stream)


def on_gpus(body: Callable[[Rank], Any]) -> Callable[[], None]:
    """A test whose body runs on two ranks."""

    def run(rank: int, store: dist.Store) -> None:
        try:
            made = Rank(rank, store)
            body(made)
            made.group.shutdown()
        except BaseException:
            TOGETHER.abort()
            raise

    @functools.wraps(body)
    def test() -> None:
        TOGETHER.reset()
        store = dist.HashStore()
        with ThreadPoolExecutor(RANKS) as threads:
            for ended in [threads.submit(run, rank, store) for rank in range(RANKS)]:
                ended.result()
        assert GPUS.fake_faults() == b""

    del test.__wrapped__  # pytest would look for its arguments
    return test


def synchronous(options: Any) -> Any:
    """The options of a call that its caller waits for."""
    options.asyncOp = False
    return options


@on_gpus
def test_a_synchronous_call_is_on_the_current_stream(rank: Rank) -> None:
    x, memory = rank.tensor(0, 0)
    rank.group.allreduce([x]).wait()  # the ranks join
    rank.synchronize()
    memory[...] = [1, 2 + rank.rank]
    TOGETHER.wait()
    before = GPUS.fake_calls(b"synchronize")
    with rank.held():
        rank.group.allreduce([x], synchronous(dist.AllreduceOptions())).wait()
        assert memory.tolist() == [1, 2 + rank.rank]
        assert GPUS.fake_calls(b"synchronize") == before
    rank.synchronize()
    assert memory.tolist() == [2, 5]
    host = torch.ones(2)
    rank.group.allreduce([host]).wait()
    assert host.tolist() == [2, 2]


@on_gpus
def test_an_asynchronous_call_is_behind_the_current_stream(rank: Rank) -> None:
    x, memory = rank.tensor(3, 4)
    with rank.held():
        work = rank.group.allreduce([x])
        assert not work.is_completed()
        assert memory.tolist() == [3, 4]
    work.wait()
    rank.synchronize()
    assert memory.tolist() == [6, 8]
    assert work.is_completed()
    assert work.result()[0].data_ptr() == x.data_ptr()
    assert DEVICES.fake_devices_remembered() > 0


@on_gpus
def test_work_behind_a_wait_sees_the_result(rank: Rank) -> None:
    x, memory = rank.tensor(1, 1)
    for _ in range(4):
        rank.group.allreduce([x]).wait()
    rank.group.allreduce([x], synchronous(dist.AllreduceOptions())).wait()
    rank.group.barrier().wait()  # waits for the current stream as well
    assert memory.tolist() == [32, 32]


@on_gpus
def test_messages_are_made_together(rank: Rank) -> None:
    mine, _ = rank.tensor(*[7 + rank.rank] * 5)
    theirs, memory = rank.tensor(*[0] * 5)
    peer = 1 - rank.rank
    works = [rank.group.send([mine], peer, 0), rank.group.recv([theirs], peer, 0)]
    for work in works:
        work.wait()
    rank.synchronize()
    assert memory.tolist() == [7 + peer] * 5
    memory[...] = 0
    rank.group.recv([theirs], peer, 0)
    rank.group.send([mine], peer, 0)
    x, sums = rank.tensor(1)
    rank.group.allreduce([x]).wait()  # the messages come before it
    rank.group.barrier().wait()
    assert memory.tolist() == [7 + peer] * 5
    assert sums.tolist() == [2]


@on_gpus
def test_coalesced_calls_are_one_work(rank: Rank) -> None:
    tensors = [rank.tensor(number, rank.rank) for number in range(3)]
    rank.group._start_coalescing()
    for x, _ in tensors:
        rank.group.allreduce([x])
    work = rank.group._end_coalescing()
    work.wait()
    rank.synchronize()
    assert [memory.tolist() for _, memory in tensors] == [[0, 1], [2, 1], [4, 1]]


@on_gpus
def test_collectives_of_one_tensor_move_gpu_memory(rank: Rank) -> None:
    mine, _ = rank.tensor(10 + rank.rank, 20)
    both, memory = rank.tensor(0, 0, 0, 0)
    rank.group._allgather_base(both, mine).wait()
    rank.synchronize()
    assert memory.tolist() == [10, 20, 11, 20]
    part, piece = rank.tensor(0, 0)
    rank.group._reduce_scatter_base(part, both).wait()
    rank.synchronize()
    assert piece.tolist() == [[20, 40], [22, 40]][rank.rank]
    rank.group.broadcast([mine], _root(1)).wait()
    rank.group.alltoall_base(part, mine, [], []).wait()
    rank.synchronize()
    assert piece.tolist() == [[11, 11], [20, 20]][rank.rank]


def _root(rank: int) -> Any:
    options = dist.BroadcastOptions()
    options.rootRank = rank
    return options


@on_gpus
def test_a_refused_call_raises(rank: Rank) -> None:
    x, memory = rank.tensor(1, 2)
    with pytest.raises(sennit.Unsupported, match="premultiplied"):
        rank.group.allreduce([x], _premultiplied())
    rank.group.allreduce([x]).wait()
    rank.synchronize()
    assert memory.tolist() == [2, 4]


def _premultiplied() -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = dist._make_nccl_premul_sum(2.0)
    return options
