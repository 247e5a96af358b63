"""What the ranks of test_gpus.py do, each with a GPU of its own."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit

if TYPE_CHECKING:
    from collections.abc import Iterator

CYCLES = 200_000_000
"""Of a kernel that does nothing: about a tenth of a second."""


def total(comm: sennit.Communicator) -> int:
    """The sum of 1 + rank over the ranks."""
    return comm.size * (comm.size + 1) // 2


def ready(comm: sennit.Communicator) -> Any:
    """PyTorch, which works on the rank's GPU from now on."""
    import torch

    torch.cuda.set_device(comm.device)
    return torch


def torch_collectives(comm: sennit.Communicator) -> None:
    torch = ready(comm)

    def filled(*shape: int) -> Any:
        return torch.full(shape, 1.0 + comm.rank, device=comm.device)

    for count in (1, 2, 1023, 1 << 18):
        x = filled(count)
        assert comm.all_reduce(x, x) is x
        assert x.tolist() == [total(comm)] * count
    each = [[1.0 + rank] * 3 for rank in range(comm.size)]
    assert comm.all_gather(filled(3)).tolist() == each
    gathered = comm.gather(filled(3), root=1)
    assert gathered is None if comm.rank != 1 else gathered.tolist() == each
    assert comm.reduce_scatter(filled(comm.size, 3)).tolist() == [total(comm)] * 3
    assert comm.all_to_all(filled(comm.size, 3)).tolist() == each
    assert comm.broadcast(filled(3), root=1).tolist() == [2.0] * 3
    largest = comm.reduce(filled(3), op="max")
    assert largest is None if comm.rank != 0 else largest.tolist() == [float(comm.size)] * 3
    part = torch.empty(3, device=comm.device)
    comm.scatter(filled(comm.size, 3) if comm.rank == 0 else None, part)
    assert part.tolist() == [1.0] * 3
    counts = list(range(1, comm.size + 1))
    flat = comm.all_gather_v(filled(counts[comm.rank]), counts)
    assert flat.tolist() == [float(count) for count in counts for _ in range(count)]
    scaled = comm.all_reduce(filled(3), op=sennit.premulsum(0.5))
    assert scaled.tolist() == [total(comm) / 2] * 3
    comm.barrier()


def torch_new_outputs(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    x = torch.ones(4, 2, dtype=torch.bfloat16, device=comm.device)
    out = comm.all_reduce(x)
    assert (type(out), out.shape, out.dtype, out.device) == (type(x), x.shape, x.dtype, x.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    out = comm.all_reduce(x, stream=side)
    side.synchronize()
    assert out.tolist() == [[comm.size] * 2] * 4


def torch_types(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    names = ("float64", "float16", "bfloat16", "int8", "uint8", "int64", "complex64")
    for name in (*names, "float8_e4m3fn"):
        x = torch.ones(5, device=comm.device).to(getattr(torch, name))
        comm.all_reduce(x, x)
        parts = x.real if x.is_complex() else x
        assert parts.float().tolist() == [comm.size] * 5, name


def torch_streams(comm: sennit.Communicator) -> None:
    """A call is behind earlier work of the current stream, or of the one that is passed."""
    torch = ready(comm)
    x = torch.zeros(1 << 16, device=comm.device)
    comm.all_reduce(x, x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        x.fill_(1.0)
        comm.all_reduce(x, x)
        assert not side.query()  # the call has not waited
        x.mul_(2.0)
    side.synchronize()
    assert x.tolist() == [2.0 * comm.size] * x.numel()
    for stream in (side, side.cuda_stream):
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(CYCLES)
            x.fill_(1.0)
        comm.all_reduce(x, x, stream=stream)
        assert not side.query()
        side.synchronize()
        assert x.tolist() == [comm.size] * x.numel()
    comm.barrier(stream=side)
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        comm.barrier()  # follows PyTorch, since its tensors were the last
    assert not side.query()
    torch.cuda.synchronize()


def torch_works(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    x = torch.ones(1024, device=comm.device)
    comm.all_reduce(x, x)
    torch.cuda.synchronize()
    x.fill_(1.0)
    torch.cuda._sleep(CYCLES)
    work = comm.start.all_reduce(x, x)
    assert not work.test()
    assert work.wait() is x
    assert torch.cuda.current_stream().query()
    torch.cuda._sleep(CYCLES)
    comm.start.all_reduce(x, x)  # is dropped, and not waited for
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert x.tolist() == [comm.size**2] * 1024


def torch_messages(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    following, previous = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for count in (3, 1 << 22):
        mine = torch.full((count,), comm.rank, device=comm.device)
        theirs = torch.full_like(mine, -1)
        with sennit.group():
            comm.send(mine, following)
            comm.recv(theirs, previous)
        assert bool((theirs == previous).all())


def torch_graph(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    x = torch.ones(1024, device=comm.device)
    comm.all_reduce(x, x)
    x.fill_(1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        comm.all_reduce(x, x)
        comm.barrier()
        y = comm.all_gather(x)
    assert x.tolist() == [1.0] * 1024
    for _ in range(2):
        graph.replay()
    torch.cuda.synchronize()
    assert x.tolist() == [comm.size**2] * 1024
    assert y.tolist() == [[comm.size**2] * 1024] * comm.size
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1.0)
        with pytest.raises(sennit.Error):
            comm.start.all_reduce(x, x)
    comm.all_reduce(x, x)
    torch.cuda.synchronize()


def torch_norms(comm: sennit.Communicator) -> None:
    """Of few rows, in one kernel, and of many; the second time in a graph."""
    torch = ready(comm)
    weight = torch.linspace(0.5, 2, 4096, device=comm.device).bfloat16()
    scale = torch.tensor(0.02, device=comm.device)
    for rows in (1, 300):
        x = torch.full((rows, 4096), 1.0 + comm.rank, device=comm.device, dtype=torch.bfloat16)
        first = torch.linspace(-8, 8, 4096, device=comm.device).bfloat16().repeat(rows, 1)
        residual, out = first.clone(), torch.empty_like(x)
        quantized = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        norm = sennit.RmsNorm(weight, 1e-5, residual, quantized, scale)
        comm.all_reduce(x, out, rms_norm=norm)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            residual.copy_(first)
            comm.all_reduce(x, out, rms_norm=norm)
        for replays in (0, 1):
            if replays:
                out.zero_()
                graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(residual, first + comm.size * (comm.size + 1) // 2)
            wanted = torch.nn.functional.rms_norm(residual, (4096,), weight, 1e-5)
            torch.testing.assert_close(out, wanted, rtol=1 / 128, atol=0)
            limited = (out.float() / scale).clamp(-448, 448)
            assert torch.equal(quantized.float(), limited.to(torch.float8_e4m3fn).float())


def torch_large(comm: sennit.Communicator) -> None:
    """By copy engines, too."""
    torch = ready(comm)
    count = 64 << 20  # 256 MB
    x = torch.full((count,), 1.0 + comm.rank, device=comm.device)
    comm.all_reduce(x, x)
    assert bool((x == total(comm)).all())
    x.fill_(1.0)
    comm.start.all_reduce(x, x).wait()
    assert bool((x == comm.size).all())


def torch_symmetric(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    part = (128 << 20) // comm.size // 4  # copy engines carry as long outputs
    all_parts = comm.size * part
    window = torch.empty(2 * all_parts + 4, device=comm.device)
    x = torch.empty(part, device=comm.device)
    with comm.register(window, symmetric=True):
        for i in range(9):
            if comm.rank == i % comm.size:
                time.sleep(0.02)  # the others do not wait for it, but in the first call
            x.fill_(i + 100 * comm.rank)
            begin = (0, 4, all_parts)[i % 3]
            out = window[begin : begin + all_parts]
            comm.all_gather(x, out)
            for rank, found in enumerate(out.view(comm.size, part)):
                assert (found == i + 100 * rank).all()
    out = torch.empty(all_parts, device=comm.device)
    comm.all_gather(x, out)
    assert (out.view(comm.size, part)[comm.size - 1] == 8 + 100 * (comm.size - 1)).all()


def torch_wrong_places(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    x = torch.ones(4, device=comm.device)
    for host in (np.ones(4, np.float32), torch.ones(4)):
        with pytest.raises(sennit.InvalidArgument, match="out is ordinary host memory"):
            comm.all_reduce(x, host)
        with pytest.raises(sennit.InvalidArgument, match="x is ordinary host memory"):
            comm.all_reduce(host, x)
    there = torch.ones(4, device=f"cuda:{(comm.rank + 1) % comm.size}")
    with pytest.raises(sennit.InvalidArgument, match=f"x is in memory of {there.device}, but this"):
        comm.all_reduce(there, x)
    with pytest.raises(sennit.InvalidArgument, match="x is not C-contiguous"):
        comm.all_reduce(torch.ones(4, 4, device=comm.device).T)
    with pytest.raises(sennit.InvalidArgument, match="require gradient"):
        comm.all_reduce(torch.ones(4, device=comm.device, requires_grad=True))
    comm.all_reduce(x, x)
    assert x.tolist() == [comm.size] * 4


def torch_splits(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    alone = comm.split(comm.rank)
    assert alone is not None
    assert (alone.size, alone.device) == (1, comm.device)
    x = torch.ones(4, device=comm.device)
    alone.all_reduce(x, x)
    assert x.tolist() == [1.0] * 4


def torch_pinned(comm: sennit.Communicator) -> None:
    torch = ready(comm)
    x = torch.ones(1024, pin_memory=True)
    comm.all_reduce(x, x)
    torch.cuda.synchronize()
    assert x.tolist() == [comm.size] * 1024


@contextlib.contextmanager
def cupy_of(comm: sennit.Communicator) -> Iterator[Any]:
    import cupy

    with cupy.cuda.Device(int(comm.device.partition(":")[2])):
        yield cupy


def cupy_collectives(comm: sennit.Communicator) -> None:
    with cupy_of(comm) as cupy:
        x = cupy.full(1000, 1 + comm.rank, cupy.float32)
        comm.all_reduce(x, x)
        assert x.tolist() == [total(comm)] * 1000
        y = comm.all_gather(x[:3])
        assert type(y) is cupy.ndarray
        assert y.tolist() == [[total(comm)] * 3] * comm.size
        bits = sennit.typed(cupy.zeros(3, cupy.uint16), "bfloat16")
        assert comm.all_reduce(bits).array.tolist() == [0, 0, 0]
        with pytest.raises(sennit.InvalidArgument, match="x is not C-contiguous"):
            comm.all_reduce(x[::2])
        comm.barrier()


def cupy_streams(comm: sennit.Communicator) -> None:
    with cupy_of(comm) as cupy:
        x = cupy.ones(1 << 20, cupy.float32)
        comm.all_reduce(x, x)
        side, other = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with side:
            x[...] = 1
            comm.all_reduce(x, x)
            x *= 2
        side.synchronize()
        assert bool((x == 2 * comm.size).all())
        with side:
            x[...] = 1
        out = comm.all_reduce(x, stream=side)
        side.synchronize()
        assert bool((out == comm.size).all())
        side.synchronize()
        comm.all_reduce(x, x, stream=other)
        other.synchronize()
        assert bool((x == comm.size).all())


def cupy_graph(comm: sennit.Communicator) -> None:
    with cupy_of(comm) as cupy:
        x = cupy.ones(1000, cupy.float32)
        comm.all_reduce(x, x)
        side = cupy.cuda.Stream(non_blocking=True)
        x[...] = 1
        cupy.cuda.Device().synchronize()
        with side:
            side.begin_capture()
            comm.all_reduce(x, x)
            graph = side.end_capture()
        for _ in range(2):
            graph.launch(stream=side)
        side.synchronize()
        assert x.tolist() == [comm.size**2] * 1000


def numba_collectives(comm: sennit.Communicator) -> None:
    from numba import cuda

    cuda.select_device(int(comm.device.partition(":")[2]))
    x = cuda.to_device(np.full(1000, 1 + comm.rank, np.float32))
    comm.all_reduce(x, x)
    out = comm.all_gather(x)
    cuda.synchronize()
    assert out.copy_to_host().tolist() == [[total(comm)] * 1000] * comm.size
    stream = cuda.stream()
    comm.all_reduce(x, x, stream=stream)
    stream.synchronize()
    assert x.copy_to_host().tolist() == [total(comm) * comm.size] * 1000


def jax_inputs(comm: sennit.Communicator) -> None:
    import jax
    import jax.numpy as jnp

    number = int(comm.device.partition(":")[2])
    device = next(one for one in jax.devices() if one.local_hardware_id == number)
    x = jax.device_put(jnp.full(1000, 1.0 + comm.rank), device)
    with pytest.raises(sennit.InvalidArgument, match="x is read-only"):
        comm.all_reduce(x, x)
    with pytest.raises(sennit.InvalidArgument, match="pass out"):
        comm.all_reduce(x)
    torch = ready(comm)
    out = torch.empty(1000, device=comm.device)
    # What JAX still computes is ordered before the call.
    y = x
    for _ in range(100):
        y = jnp.sin(y) * 0 + x
    comm.all_reduce(y, out)
    torch.cuda.synchronize()
    assert out.tolist() == [total(comm)] * 1000
