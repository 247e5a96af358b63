"""How long the host takes for an all_reduce of GPU ranks: from C, from Python, by PyTorch's NCCL.

    python3 bench/gpu/python_calls.py [--bytes 8] [--json FILE]

A rank a GPU, all in turns in the same processes. `call` is the time in which a call returns:
batches of calls that fit into the stream's queue, the fastest and the median batch. `done` is the
time of one call and of the stream's end, `replay` that of a CUDA graph of 100 calls, each as one
call. PyTorch with `nccl` on the library that stands before NVIDIA's: LD_PRELOAD as docs/nccl.md
says.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import os
import platform
import secrets
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import sennit

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
BATCHES = 300
CALLS = 50
GRAPH_CALLS = 100


def library() -> Path:
    """The libsennit.so that this process has loaded."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return next(Path(line.split()[-1]) for line in lines if "libsennit.so" in line)


def build(folder: str) -> str:
    """Compiles the calls from C."""
    target = f"{folder}/c_calls.so"
    include = HERE.parents[1] / "include"
    source = str(HERE / "c_calls.c")
    command = ["cc", "-O2", "-shared", "-fPIC", f"-I{include}", source, str(library())]
    subprocess.run([*command, "-o", target], check=True)
    return target


class Clock:
    """Times of one rank."""

    def __init__(self, torch: Any, comm: sennit.Communicator) -> None:
        """Measure on the GPU of this rank."""
        self.torch = torch
        self.comm = comm

    def meet(self) -> None:
        """Waits until the GPUs are idle, on all ranks."""
        self.torch.cuda.synchronize()
        self.comm.barrier()
        self.torch.cuda.synchronize()

    def call(self, batch_us: Callable[[], float]) -> list[float]:
        """Fastest and median batch."""
        found = []
        for _ in range(BATCHES):
            self.meet()
            found.append(batch_us())
        self.torch.cuda.synchronize()
        return [min(found), median(found)]

    def done(self, one: Callable[[], Any]) -> list[float]:
        """Of one call, to the end of the stream."""
        found = []
        for _ in range(BATCHES):
            self.meet()
            begin = time.perf_counter()
            one()
            self.torch.cuda.synchronize()
            found.append((time.perf_counter() - begin) * 1e6)
        return [min(found), median(found)]

    def replay(self, one: Callable[[], Any]) -> list[float]:
        """Of one call in a graph."""
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(GRAPH_CALLS):
                one()
        return [time / GRAPH_CALLS for time in self.done(graph.replay)]


def batch_us(one: Callable[[], Any]) -> float:
    """Microseconds a call of a batch."""
    begin = time.perf_counter()
    for _ in range(CALLS):
        one()
    return (time.perf_counter() - begin) / CALLS * 1e6


def from_c(clock: Clock, path: str, key: str, x: Any) -> dict[str, list[float]]:
    """The times of calls from C, on PyTorch's current stream."""
    c = ctypes.CDLL(path)
    c.c_join.restype = ctypes.c_void_p
    c.c_calls_us.restype = ctypes.c_double
    comm = clock.comm
    handle = c.c_join(key.encode(), comm.rank, comm.size, comm.device.encode())
    assert handle is not None
    handle = ctypes.c_void_p(handle)
    pointer, count = ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(x.numel())

    def calls_us(calls: int) -> float:
        stream = ctypes.c_void_p(clock.torch.cuda.current_stream().cuda_stream)
        spent: float = c.c_calls_us(handle, pointer, count, stream, calls)
        assert spent >= 0
        return spent

    calls_us(3)
    times = {
        "call": clock.call(lambda: calls_us(CALLS)),
        "done": clock.done(lambda: calls_us(1)),
        "replay": clock.replay(lambda: calls_us(1)),
    }
    clock.torch.cuda.synchronize()
    c.c_leave(handle)
    return times


def times_of(clock: Clock, one: Callable[[], Any], *, graph: bool = True) -> dict[str, list[float]]:
    """All times of a call."""
    for _ in range(3):
        one()
    times = {"call": clock.call(lambda: batch_us(one)), "done": clock.done(one)}
    if graph:
        times["replay"] = clock.replay(one)
    return times


def rank(comm: sennit.Communicator, path: str, key: str, bytes_: int) -> dict[str, Any]:
    """One rank's times."""
    import torch

    torch.cuda.set_device(comm.device)
    clock = Clock(torch, comm)
    x = torch.zeros(bytes_ // 4, device=comm.device)
    stream = torch.cuda.current_stream()
    all_reduce = comm.all_reduce
    found = {
        "C": from_c(clock, path, key, x),
        "Python, PyTorch": times_of(clock, lambda: all_reduce(x, x)),
        "Python, PyTorch, stream=": times_of(clock, lambda: all_reduce(x, x, stream=stream)),
        "C again": from_c(clock, path, f"{key}-again", x),
    }
    try:
        import cupy
    except ImportError:
        pass
    else:
        with cupy.cuda.Device(torch.cuda.current_device()):
            y = cupy.zeros(bytes_ // 4, cupy.float32)
            found["Python, CuPy"] = times_of(clock, lambda: all_reduce(y, y), graph=False)
    for backend in ("sennit", "nccl"):
        found[f"torch.distributed, {backend}"] = by_group(clock, x, backend)
    return found


def by_group(clock: Clock, x: Any, backend: str) -> dict[str, list[float]]:
    """The times of torch.distributed."""
    import torch.distributed as dist

    importlib.import_module("sennit.torch")
    comm = clock.comm
    store = dist.FileStore(f"{os.environ['SENNIT_TIMES_STORE']}-{backend}", comm.size)
    dist.init_process_group(backend, store=store, rank=comm.rank, world_size=comm.size)
    times = times_of(clock, lambda: dist.all_reduce(x))
    dist.destroy_process_group()
    return times


def machine() -> dict[str, str]:
    """What the times are of."""
    import torch

    return {
        "gpu": torch.cuda.get_device_name(0),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "preloaded": os.environ.get("LD_PRELOAD", ""),
    }


def main() -> None:
    """Measures on all GPUs, and prints what rank 0 has measured."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SENNIT_TIMES_STORE"] = f"{folder}/store"
        key = secrets.token_hex(8)
        arguments = (build(folder), key, options.bytes)
        ranks = torch.cuda.device_count()
        found = sennit.spawn(rank, ranks, *arguments, device="cuda")[0]
    print(f"all_reduce of {options.bytes} B, {ranks} ranks; us, fastest (median)")
    for name, times in found.items():
        cells = (f"{what} {low:.2f} ({mid:.2f})" for what, (low, mid) in times.items())
        print(f"{name:26}", *cells, sep="  ")
    if options.json:
        document = {"machine": machine(), "bytes": options.bytes, "ranks": ranks, "us": found}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
