"""What the ranks of test_gpus.py do with torch.distributed, backend sennit, on GPUs."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
from typing import TYPE_CHECKING, Any

import sennit
from gpu_ranks import CYCLES, ready, total

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def joined(comm: sennit.Communicator) -> Iterator[tuple[Any, Any]]:
    """PyTorch, and torch.distributed with a default group of the ranks."""
    torch = ready(comm)
    import torch.distributed as dist

    importlib.import_module("sennit.torch")

    store = dist.FileStore(os.environ["GPU_TEST_STORE"], comm.size)
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group(
        "sennit", store=store, rank=comm.rank, world_size=comm.size, timeout=timeout
    )
    yield torch, dist
    torch.cuda.synchronize()
    dist.destroy_process_group()


def collectives(comm: sennit.Communicator) -> None:
    with joined(comm) as (torch, dist):
        size = comm.size

        def filled(*shape: int) -> Any:
            return torch.full(shape, 1.0 + comm.rank, device=comm.device)

        x = filled(1000)
        dist.all_reduce(x)
        assert x.tolist() == [total(comm)] * 1000
        y = filled(1000)
        dist.broadcast(y, 1)
        assert y.tolist() == [2.0] * 1000
        outs = [torch.empty(3, device=comm.device) for _ in range(size)]
        dist.all_gather(outs, filled(3))
        assert [out.tolist() for out in outs] == [[1.0 + rank] * 3 for rank in range(size)]
        flat = torch.empty(size * 3, device=comm.device)
        dist.all_gather_into_tensor(flat, filled(3))
        assert flat.tolist() == [1.0 + rank for rank in range(size) for _ in range(3)]
        part = torch.empty(3, device=comm.device)
        dist.reduce_scatter_tensor(part, filled(size * 3))
        assert part.tolist() == [total(comm)] * 3
        dist.all_to_all_single(flat, filled(size * 3))
        assert flat.tolist() == [1.0 + rank for rank in range(size) for _ in range(3)]
        dist.reduce(x := filled(3), 0)
        assert comm.rank != 0 or x.tolist() == [total(comm)] * 3
        lists = list(filled(size, 3).unbind()) if comm.rank == 0 else None
        dist.scatter(part, lists, 0)
        assert part.tolist() == [1.0] * 3
        transposed = filled(4, 3).T
        dist.all_reduce(transposed)
        assert transposed.tolist() == [[total(comm)] * 4] * 3
        host = torch.ones(3)
        dist.all_reduce(host)
        assert host.tolist() == [float(size)] * 3
        dist.barrier()


def asynchronous(comm: sennit.Communicator) -> None:
    """Not on the current stream; a wait orders that, and not the host, behind the call."""
    with joined(comm) as (torch, dist):
        x = torch.ones(1 << 20, device=comm.device)
        dist.all_reduce(x, async_op=True).wait()
        x.mul_(1.0)  # the kernel is loaded at its first use, which takes longer than the sleep
        torch.cuda.synchronize()
        x.fill_(1.0)
        torch.cuda._sleep(CYCLES)
        work = dist.all_reduce(x, async_op=True)
        assert not work.is_completed()
        work.wait()
        x.mul_(2.0)
        assert not torch.cuda.current_stream().query()
        torch.cuda.synchronize()
        assert work.is_completed()
        assert bool((x == 2 * comm.size).all())
        future = dist.all_reduce(x, async_op=True).get_future()
        halved = future.then(lambda done: done.value()[0] / (2 * comm.size)).wait()
        assert bool((halved == comm.size).all())
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(CYCLES)
            y = torch.ones(1 << 20, device=comm.device)
            dist.all_reduce(y)
            total_ = y.sum()
        torch.cuda.synchronize()
        assert float(total_) == comm.size * (1 << 20)


def messages(comm: sennit.Communicator) -> None:
    with joined(comm) as (torch, dist):
        following, previous = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for count in (3, 1 << 22):
            mine = torch.full((count,), comm.rank, device=comm.device)
            theirs = torch.full_like(mine, -1)
            operations = [
                dist.P2POp(dist.isend, mine, following),
                dist.P2POp(dist.irecv, theirs, previous),
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            assert bool((theirs == previous).all())
        if comm.rank == 0:
            dist.send(mine, 1)
        elif comm.rank == 1:
            dist.recv(theirs, 0)
            assert bool((theirs == 0).all())
        dist.barrier()


def graph(comm: sennit.Communicator) -> None:
    with joined(comm) as (torch, dist):
        x = torch.ones(1000, device=comm.device)
        for is_async in (False, True):
            dist.all_reduce(x, async_op=is_async)
            torch.cuda.synchronize()
            x.fill_(1.0)
            torch.cuda.synchronize()
            captured = torch.cuda.CUDAGraph()
            with torch.cuda.graph(captured):
                work = dist.all_reduce(x, async_op=is_async)
                if is_async:
                    work.wait()
            for _ in range(2):
                captured.replay()
            torch.cuda.synchronize()
            assert x.tolist() == [float(comm.size**2)] * 1000


def norms(comm: sennit.Communicator) -> None:
    """In one call, also where a compiler has the program."""
    with joined(comm) as (torch, dist):
        x = torch.full((4, 512), 1.0 + comm.rank, device=comm.device, dtype=torch.float16)
        weight = torch.linspace(0.5, 2, 512, device=comm.device).half()
        first = torch.linspace(-8, 8, 512, device=comm.device).half().repeat(4, 1)
        total = first + comm.size * (comm.size + 1) // 2
        wanted = torch.nn.functional.rms_norm(total, (512,), weight, 1e-5)
        name = dist.group.WORLD.group_name

        def program(x: Any, residual: Any) -> Any:
            return sennit.torch.all_reduce_rms_norm(x, residual, weight, 1e-5, name)

        for run in (program, torch.compile(program, backend="aot_eager", fullgraph=True)):
            residual = first.clone()
            torch.testing.assert_close(run(x, residual), wanted, rtol=1 / 1024, atol=1e-7)
            assert torch.equal(residual, total)
        scale = torch.tensor(0.02, device=comm.device)
        out, quantized = sennit.torch.all_reduce_rms_norm_fp8(x, first, weight, scale, 1e-5, name)
        torch.testing.assert_close(out, wanted, rtol=1 / 1024, atol=1e-7)
        limited = (out.float() / scale).clamp(-448, 448)
        assert torch.equal(quantized.float(), limited.to(torch.float8_e4m3fn).float())


def training(comm: sennit.Communicator) -> None:
    """DistributedDataParallel gives what one rank gives that has all samples."""
    with joined(comm) as (torch, _):
        torch.manual_seed(1)
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)
        ).to(comm.device)
        alone = [p.detach().clone().requires_grad_() for p in model.parameters()]
        parallel = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[comm.device], bucket_cap_mb=0.01
        )
        samples = torch.randn(comm.size, 16, 64, device=comm.device)
        optimizer = torch.optim.SGD(parallel.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            parallel(samples[comm.rank]).square().mean().backward()
            optimizer.step()
            hidden = torch.relu(samples.reshape(-1, 64) @ alone[0].T + alone[1])
            loss = (hidden @ alone[2].T + alone[3]).square().mean()
            gradients = torch.autograd.grad(loss, alone)
            with torch.no_grad():
                for parameter, gradient in zip(alone, gradients, strict=True):
                    parameter -= 0.1 * gradient
        for mine, expected in zip(model.parameters(), alone, strict=True):
            assert torch.allclose(mine, expected, rtol=1e-3, atol=1e-5)
