"""A GPU rank of several nodes, which are virtual ones of this machine.

    SENNIT_RANK=... SENNIT_SIZE=... SENNIT_NODE=... SENNIT_ROOT=127.0.0.1 SENNIT_RAILS=lo
        python nodes_rank.py SCENE

On fake GPUs (tests/python/fake_gpus.cpp) where that library is preloaded, else on those that
PyTorch finds. Bytes are added, which the kernels of the fakes can do. Exits with 0 where all is as
it has to be, and prints what it found.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

import numpy as np
import sennit

RANK, SIZE = int(os.environ["SENNIT_RANK"]), int(os.environ["SENNIT_SIZE"])


class FakeGpu:
    """Memory of the fakes is host memory; a stream is a thread."""

    def __init__(self, device: int) -> None:
        self.library = ctypes.CDLL(os.environ["LD_PRELOAD"].split(":")[0])
        self.library.fake_stream.restype = ctypes.c_void_p
        self.library.fake_faults.restype = ctypes.c_char_p
        self.library.fake_use_device(device)
        self.device = f"cuda:{device}"
        self.stream = self.library.fake_stream()

    def array(self, values: Any, dtype: Any = np.uint8) -> Any:
        from gpu_stand_ins import CudaArray

        values = np.asarray(values, dtype)
        data = ctypes.c_void_p()
        bytes_ = ctypes.c_size_t(max(values.nbytes, 1))
        assert (
            self.library.sennit_mem_alloc_on(ctypes.byref(data), bytes_, self.device.encode()) == 0
        )
        assert data.value is not None
        raw = (ctypes.c_char * bytes_.value).from_address(data.value)
        array = np.frombuffer(memoryview(raw)[: values.nbytes], dtype).reshape(values.shape)
        array[...] = values
        return CudaArray(array, stream=self.stream)

    def values(self, array: Any) -> Any:
        self.synchronize()
        return array.array

    def part(self, array: Any, begin: int, end: int) -> Any:
        from gpu_stand_ins import CudaArray

        return CudaArray(array.array[begin:end], stream=self.stream)

    def synchronize(self) -> None:
        self.library.fake_synchronize(ctypes.c_void_p(self.stream))

    def faults(self) -> str:
        return str(self.library.fake_faults().decode())


class RealGpu:
    """Tensors of PyTorch, on the GPUs in turn."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        device = RANK % torch.cuda.device_count()
        torch.cuda.set_device(device)
        self.device = f"cuda:{device}"

    def array(self, values: Any, dtype: Any = np.uint8) -> Any:
        return self.torch.tensor(np.asarray(values, dtype), device="cuda")

    def values(self, array: Any) -> Any:
        self.synchronize()
        return array.cpu().numpy()

    def part(self, array: Any, begin: int, end: int) -> Any:
        return array[begin:end]

    def synchronize(self) -> None:
        self.torch.cuda.synchronize()

    def faults(self) -> str:
        return ""


def contents(rank: int, count: int, salt: int = 0) -> Any:
    """What the rank has; ranks can compute what the others have."""
    return np.random.default_rng((rank, count, salt)).integers(0, 256, count, dtype=np.uint8)


def summed(count: int, salt: int = 0) -> Any:
    total = np.zeros(count, np.uint8)
    for rank in range(SIZE):
        total += contents(rank, count, salt)
    return total


def expect(gpu: Any, what: str, array: Any, expected: Any) -> None:
    found = gpu.values(array).reshape(-1)
    expected = np.asarray(expected).reshape(-1)
    wrong = np.flatnonzero(found != expected)
    assert wrong.size == 0, (
        f"rank {RANK}, {what}: {wrong.size} of {expected.size} bytes are wrong, the first is "
        f"{wrong[0]}"
    )


def equal_lengths(comm: Any, gpu: Any, count: int) -> None:
    """Every collective of equal lengths, in place and not."""
    mine = contents(RANK, count)
    x, out = gpu.array(mine), gpu.array(np.zeros(count))
    comm.all_reduce(x, out)
    expect(gpu, f"all_reduce of {count}", out, summed(count))
    comm.all_reduce(x, x)
    expect(gpu, f"all_reduce of {count} in place", x, summed(count))
    x = gpu.array(mine)
    whole = gpu.array(np.zeros(SIZE * count))
    comm.all_gather(x, whole)
    everybody = np.concatenate([contents(rank, count) for rank in range(SIZE)])
    expect(gpu, f"all_gather of {count}", whole, everybody)
    own = gpu.array(np.where(np.arange(SIZE * count) // max(count, 1) == RANK, everybody, 0))
    comm.all_gather(gpu.part(own, RANK * count, (RANK + 1) * count), own)
    expect(gpu, f"all_gather of {count} in place", own, everybody)
    parts = contents(RANK, SIZE * count, 1)
    x, out = gpu.array(parts), gpu.array(np.zeros(count))
    part = slice(RANK * count, (RANK + 1) * count)
    comm.reduce_scatter(x, out)
    expect(gpu, f"reduce_scatter of {count}", out, summed(SIZE * count, 1)[part])
    whole = gpu.array(np.zeros(SIZE * count))
    comm.all_to_all(x, whole)
    given = np.concatenate([contents(rank, SIZE * count, 1)[part] for rank in range(SIZE)])
    expect(gpu, f"all_to_all of {count}", whole, given)
    for root in (0, SIZE - 1):
        x = gpu.array(mine)
        comm.broadcast(x, root=root)
        expect(gpu, f"broadcast of {count} from {root}", x, contents(root, count))
        x, out = gpu.array(mine), gpu.array(np.zeros(count))
        comm.reduce(x, out, root=root)
        if root == RANK:
            expect(gpu, f"reduce of {count} to {root}", out, summed(count))
        whole = gpu.array(np.zeros(SIZE * count))
        comm.gather(x, whole, root=root)
        if root == RANK:
            expect(gpu, f"gather of {count} at {root}", whole, everybody)
        x, out = gpu.array(parts), gpu.array(np.zeros(count))
        comm.scatter(x, out, root=root)
        expect(gpu, f"scatter of {count} from {root}", out, contents(root, SIZE * count, 1)[part])
    comm.barrier()


def other_lengths(comm: Any, gpu: Any) -> None:
    """The v-forms."""
    counts = [(rank * 37 + 5) % 50 * 1000 for rank in range(SIZE)]
    out = gpu.array(np.zeros(sum(counts)))
    comm.all_gather_v(gpu.array(contents(RANK, counts[RANK])), counts, out)
    everybody = np.concatenate([contents(rank, counts[rank]) for rank in range(SIZE)])
    expect(gpu, "all_gather_v", out, everybody)

    def sent(rank: int, peer: int) -> int:
        return (rank * 7 + peer * 3) % 5 * 900

    sends = [sent(RANK, peer) for peer in range(SIZE)]
    recvs = [sent(peer, RANK) for peer in range(SIZE)]
    x = gpu.array(np.concatenate([contents(RANK, n, peer) for peer, n in enumerate(sends)]))
    out = gpu.array(np.zeros(sum(recvs)))
    comm.all_to_all_v(x, sends, recvs, out)
    given = np.concatenate([contents(peer, n, RANK) for peer, n in enumerate(recvs)])
    expect(gpu, "all_to_all_v", out, given)


def messages(comm: Any, gpu: Any, count: int) -> None:
    """A group with all others, and a chain that crosses nodes and comes back."""
    arrays = {peer: gpu.array(contents(RANK, count, peer)) for peer in range(SIZE)}
    into = {peer: gpu.array(np.zeros(count)) for peer in range(SIZE)}
    with sennit.group():
        for peer in range(SIZE):
            comm.send(arrays[peer], peer)
            comm.recv(into[peer], peer)
    for peer in range(SIZE):
        expect(gpu, f"message of {count} from {peer}", into[peer], contents(peer, count, RANK))
    if SIZE == 2:
        return
    # Rank 0 sends to the last rank and takes from rank 1, which waits for what the last has got.
    token = gpu.array(contents(0, count))
    if RANK == 0:
        with sennit.group():
            comm.recv(into[1], 1)
            comm.send(token, SIZE - 1)
        expect(gpu, "what has come around", into[1], contents(0, count))
    elif RANK == SIZE - 1:
        comm.recv(token, 0)
        comm.send(token, 1)
    elif RANK == 1:
        comm.recv(token, SIZE - 1)
        comm.send(token, 0)


def calls(comm: Any, gpu: Any) -> None:
    """Every call, of lengths that are whole, in parts, and in more parts than there are slots."""
    for count in (1, 1000, 70_001, 300_000, 9_000_017 // SIZE):
        equal_lengths(comm, gpu, count)
    x = gpu.array(contents(RANK, 40_000_003))
    comm.all_reduce(x, x)
    expect(gpu, "all_reduce of many parts", x, summed(40_000_003))
    x, out = gpu.array(contents(RANK, 1001)), gpu.array(np.zeros(1001))
    comm.all_reduce(x, out, reproducible=True)
    expect(gpu, "reproducible all_reduce", out, summed(1001))
    comm.all_reduce(x, out, algorithm="ring")
    expect(gpu, "all_reduce by an algorithm of host ranks", out, summed(1001))
    other_lengths(comm, gpu)
    for count in (10, 6_000_000):
        messages(comm, gpu, count)
    works = [comm.start.all_reduce(x, out) for _ in range(20)]
    for work in works:
        work.wait()
    expect(gpu, "the last of several works", out, summed(1001))
    half = comm.split(RANK % 2, RANK)
    out = gpu.array(np.zeros(10 * half.size))
    half.all_gather(gpu.array(contents(RANK, 10)), out)
    members = range(RANK % 2, SIZE, 2)
    expect(gpu, "all_gather of half", out, np.concatenate([contents(r, 10) for r in members]))
    half.destroy()


def graph(comm: Any, gpu: Any) -> None:
    """A graph on real GPUs, of calls that cross in several parts."""
    torch = gpu.torch
    for count in (1000, 20_000_003):
        x = gpu.array(contents(RANK, count))
        first, out = x.clone(), torch.zeros_like(x)
        comm.all_reduce(x, out)
        held = torch.cuda.CUDAGraph()
        with torch.cuda.graph(held):
            comm.all_reduce(x, out)
            comm.all_reduce(out, out)
        for _ in range(3):
            x.copy_(first)
            held.replay()
            expect(gpu, f"all_reduce of {count} twice, in a graph", out, summed(count) * SIZE)


def until_failure(comm: Any, gpu: Any) -> None:
    """Call until a call fails; the last rank ends before."""
    x = gpu.array(contents(RANK, 200_000))
    error = None
    for call in range(1000):
        if RANK == SIZE - 1 and call == 20:
            os._exit(0)
        try:
            comm.start.all_reduce(x, x).wait()
        except sennit.Error as failure:
            error = failure
            break
    assert error is not None
    found = {"rank": RANK, "error": type(error).__name__, "text": str(error)}
    print(json.dumps(found | {"blamed": list(error.blamed_ranks)}), flush=True)
    began = time.monotonic()
    comm.abort()
    rest = comm.shrink()
    comm.destroy()
    assert time.monotonic() - began < 10
    out = gpu.array(np.zeros(rest.size))
    rest.all_gather(gpu.array([RANK]), out)
    expect(gpu, "all_gather of survivors", out, range(SIZE - 1))
    rest.destroy()


def codecs(comm: Any, gpu: Any) -> None:
    """A codec applies to what crosses, whether a call or a rule names it."""
    count = 600_000

    def values(rank: int) -> Any:
        return np.random.default_rng(rank).uniform(-1, 1, count).astype(np.float32)

    nodes = json.loads(os.environ["RANK_NODES"])
    x = gpu.array(values(RANK), np.float32)
    for options in ({"codec": "q8"}, {}):  # the rule is in SENNIT_CODEC
        out = gpu.array(np.zeros((SIZE, count)), np.float32)
        comm.all_gather(x, out, **options)
        found = gpu.values(out).reshape(SIZE, count)
        for rank in range(SIZE):
            error = np.abs(found[rank] - values(rank)).max()
            is_here = nodes[rank] == nodes[RANK]
            assert (error == 0) if is_here else (0 < error < 0.01), (RANK, rank, options, error)
    comm.all_gather(x, out, codec="none")
    assert all((gpu.values(out).reshape(SIZE, count)[r] == values(r)).all() for r in range(SIZE))


def refusals(comm: Any, gpu: Any) -> None:
    """What is refused is refused on all ranks, and the communicator goes on."""
    x = gpu.array(contents(RANK, 100))

    def refused(**request: str) -> None:
        try:
            comm.all_reduce(x, x, **request)
        except sennit.Error as error:
            print(json.dumps({"rank": RANK, "text": str(error)}))
        else:
            raise AssertionError(f"{request} is not refused")

    refused(algorithm="no_such")
    refused(codec="q8")
    comm.all_reduce(x, x)
    expect(gpu, "all_reduce after refusals", x, summed(100))


def difference(comm: Any, gpu: Any) -> None:
    """The nodes make different calls."""
    x = gpu.array(contents(RANK, 100_000))
    differ(lambda: comm.start.all_reduce(x, x), lambda: comm.start.broadcast(x))


def other_length(comm: Any, gpu: Any) -> None:
    """The first part is as long."""
    x = gpu.array(contents(RANK, 40_000_000))
    y = gpu.part(x, 0, 30_000_000)
    differ(lambda: comm.start.all_reduce(x, x), lambda: comm.start.all_reduce(y, y))


def differ(first: Any, second: Any) -> None:
    """Call the one on the first ranks, the other on the rest."""
    try:
        (first if RANK < SIZE // 2 else second)().wait()
    except sennit.Error as error:
        print(json.dumps({"rank": RANK, "error": type(error).__name__, "text": str(error)}))
    else:
        raise AssertionError("it has not failed")


def main(scene: str) -> None:
    """Join, play the scene, and leave."""
    is_fake = "fake_gpus" in os.environ.get("LD_PRELOAD", "")
    gpu = FakeGpu(int(os.environ["RANK_DEVICE"])) if is_fake else RealGpu()
    comm = sennit.init(device=gpu.device, deadline_s=20.0, timeout_s=60)
    scenes = {
        "calls": calls,
        "until failure": until_failure,
        "codecs": codecs,
        "graph": graph,
        "refusals": refusals,
        "difference": difference,
        "other length": other_length,
    }
    scenes[scene](comm, gpu)
    if scene in ("calls", "codecs", "graph", "refusals"):
        comm.destroy()
    assert gpu.faults() == ""


if __name__ == "__main__":
    main(sys.argv[1])
