"""Programs of PyTorch that the ranks of tests run: training, failures, what groups are asked."""

from __future__ import annotations

import datetime
import gc
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sennit
import torch
import torch.distributed as dist
from torch_ranks import TIMEOUT, inputs, join

import sennit.torch  # isort: skip


def trained(backend: str, rank: int) -> list[torch.Tensor]:
    """The parameters of a small model after some steps of DDP."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3)]
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(*layers), process_group=dist.new_group(backend=backend)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(rank)
    for _ in range(5):
        x = torch.randn(16, 20, generator=data)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def training(rank: int, ranks: int, file: str) -> None:
    """DDP comes to the parameters that it comes to with Gloo."""
    join(rank, ranks, file)
    for ours, theirs in zip(trained("sennit", rank), trained("gloo", rank), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    gc.collect()  # a group of Gloo that ends with its model, in a collection, may wait for ever
    dist.destroy_process_group()


def a_rank_dies(rank: int, ranks: int, file: str) -> None:
    """The others learn who, in bounded time."""
    join(rank, ranks, file)
    dist.barrier()  # all have made their group of Gloo, which fails where a rank has gone
    if rank == 1:
        os._exit(0)
    with pytest.raises(sennit.RankFailed) as failure:
        dist.all_reduce(torch.ones(3))
    assert failure.value.blamed_ranks == (1,)


def made(store: dist.Store, rank: int, ranks: int) -> Any:
    """What the backend makes a group of."""
    options = dist.distributed_c10d._DistributedBackendOptions()
    options.store, options.group_rank, options.group_size = store, rank, ranks
    options.timeout = datetime.timedelta(seconds=20)
    return dist.Backend._plugins["SENNIT"].creator_fn(options, None)


def two_groups_of_one_store(rank: int, ranks: int, file: str) -> None:
    """Groups form though the store has the key of an attempt that failed, or of a group before."""
    store = dist.FileStore(file, ranks)
    for turn in range(3):
        if turn > 0 and rank == 0:
            time.sleep(0.5)  # the others find the key of the last turn
        before = time.monotonic()
        group = made(store, rank, ranks)
        assert time.monotonic() - before < 10
        x = torch.full((3,), float(turn))
        group.allreduce([x]).wait()
        assert x.tolist() == [float(turn * ranks)] * 3
        group.shutdown()
    if rank == 0:
        store.set("sennit", "of a rank 0 that is dead")
        store.set("set", "1")
        time.sleep(1)
    store.wait(["set"])
    made(store, rank, ranks).shutdown()


def rank_0_comes_too_late(rank: int, ranks: int, file: str) -> None:
    """The others get an error after the timeout of the group."""
    join(rank, ranks, file)
    if rank == 0:
        time.sleep(5)
    before = time.monotonic()
    with pytest.raises(sennit.JoinTimeout) as failure:
        dist.new_group(list(range(ranks)), timeout=datetime.timedelta(seconds=1))
    assert time.monotonic() - before < 3
    if rank != 0:
        assert failure.value.blamed_ranks == (0,)
        assert "rank 0 has put no key into the store" in str(failure.value)


def what_others_ask_of_a_group(rank: int, ranks: int, file: str) -> None:
    """Name, description and devices: meshes, functional collectives, subgroups, checkpoints."""
    from torch.distributed import _functional_collectives as functional
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    join(rank, ranks, file)
    world = dist.group.WORLD
    assert world is not None
    assert world.group_name
    assert world.group_desc == "default_pg"
    assert {device.type for device in world._device_types} == {"cpu", "cuda"}
    assert "isend" in repr(dist.P2POp(dist.isend, torch.ones(1), (rank + 1) % ranks))
    whole = functional.all_reduce(inputs(rank, 4), "sum", world)
    assert torch.equal(whole, sum(inputs(peer, 4) for peer in range(ranks)))
    dist.destroy_process_group(dist.new_group(list(range(ranks))))
    mesh = init_device_mesh("cpu", (ranks,))
    rows = torch.arange(3.0 * ranks).view(-1, 3)
    sharded = distribute_tensor(rows, mesh, [Shard(0)])
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=1))
    assert any("timeout is now only supported" in str(warning.message) for warning in caught)
    mixed: Any = dist.new_group(backend="cpu:sennit,cuda:gloo")
    dist.all_reduce(x := torch.ones(1), group=mixed)
    assert x[0] == ranks
    names = [mixed._get_backend(torch.device(kind)).name() for kind in ("cpu", "cuda")]
    assert names == ["sennit", "gloo"]
    dist.destroy_process_group()


def groups_with_settings(rank: int, ranks: int, file: str) -> None:
    """`pg_options` are settings of the communicator."""
    join(rank, ranks, file)
    lossy = dist.new_group(pg_options=sennit.Config(codec="q8"))
    x = torch.linspace(-1, 1, 100_000) * (rank + 1)
    plain, shortened = x.clone(), x.clone()
    dist.all_reduce(plain)
    dist.all_reduce(shortened, group=lossy)
    assert not torch.equal(plain, shortened)
    torch.testing.assert_close(plain, shortened, rtol=0, atol=0.1)
    counts = torch.arange(5)
    dist.all_reduce(counts, group=lossy)
    assert counts.tolist() == [0, ranks, 2 * ranks, 3 * ranks, 4 * ranks]
    with pytest.raises(sennit.InvalidArgument, match=r"a sennit.Config, not a dict"):
        dist.new_group(pg_options={"codec": "q8"})


def a_call_may_have_a_time_of_its_own(rank: int, ranks: int, file: str) -> None:
    """The timeout in the options of a call holds for that call."""
    join(rank, ranks, file)
    group: Any = dist.group.WORLD
    short = dist.AllreduceOptions()
    short.timeout = datetime.timedelta(milliseconds=200)
    group.allreduce([torch.ones(1)], dist.AllreduceOptions()).wait()  # has none that is set
    changed = dist.new_group(list(range(ranks)), timeout=TIMEOUT)
    done = Path(file + ".done")
    if rank == 0:
        with pytest.raises(sennit.DeadlineExceeded):
            group.allreduce([torch.ones(1)], short).wait()
        changed.set_timeout(datetime.timedelta(milliseconds=200))
        with pytest.raises(dist.DistBackendError):
            dist.all_reduce(torch.ones(1), group=changed)
        done.touch()
    else:
        while not done.exists():
            time.sleep(0.01)


def a_timeout_may_be_an_argument(rank: int, ranks: int, file: str) -> None:
    """Every method takes tensors, a root, an operator and a timeout instead of options."""
    join(rank, ranks, file)
    world: Any = dist.group.WORLD
    long, short = datetime.timedelta(seconds=30), datetime.timedelta(milliseconds=200)
    mine, total = inputs(rank, 4), sum(inputs(peer, 4) for peer in range(ranks))
    all_of_them = [inputs(peer, 4) for peer in range(ranks)]
    outs = [torch.zeros(4) for _ in range(ranks)]
    out = torch.zeros(4)

    def expect(work: Any, got: Any, right: Any) -> None:
        work.wait()
        assert all(map(torch.equal, got, right)), (got, right)

    x = mine.clone()
    expect(world.allreduce(x, dist.ReduceOp.MAX, long), [x], [torch.stack(all_of_them).amax(0)])
    x = mine.clone()
    expect(world.allreduce([x], timeout=long), [x], [total])
    x = mine.clone()
    expect(world.broadcast(x, 1, timeout=long), [x], [inputs(1, 4)])
    x = mine.clone()
    expect(world.reduce(x, 1, dist.ReduceOp.SUM, long), [x], [total if rank == 1 else mine])
    expect(world.allgather(outs, mine, timeout=long), outs, all_of_them)
    got = [torch.zeros(4) for _ in range(ranks)] if rank == 1 else []
    expect(world.gather(got, mine, 1, long), got, all_of_them[: len(got)])
    expect(world.scatter(out, all_of_them if rank == 0 else [], 0, long), [out], [mine])
    parts = [inputs(rank, 4) for _ in range(ranks)]
    expect(world.reduce_scatter(out, parts, timeout=long), [out], [total])
    flat, sent = torch.zeros(ranks), torch.full((ranks,), float(rank))
    expect(world.alltoall_base(flat, sent, [], [], long), [flat], [torch.arange(float(ranks))])
    world.barrier(timeout=long).wait()

    calls: list[Callable[[], Any]] = [
        lambda: world.allreduce(mine, timeout=short),
        lambda: world.broadcast(mine, 1 - rank, short),
        lambda: world.reduce(mine, rank, timeout=short),
        lambda: world.allgather(outs, mine, short),
        lambda: world.gather(outs, mine, rank, short),
        lambda: world.scatter(out, [], 1 - rank, short),
        lambda: world.reduce_scatter(out, parts, timeout=short),
        lambda: world.alltoall_base(flat, sent, [], [], short),
        lambda: world.barrier(timeout=short),
    ]
    for number, call in enumerate(calls):
        world = dist.new_group(list(range(ranks)), timeout=TIMEOUT)
        ended = Path(f"{file}.ended{number}")
        if rank == 0:
            begin = time.monotonic()
            with pytest.raises(sennit.DeadlineExceeded):
                call().wait()
            assert time.monotonic() - begin < 10
            ended.touch()
        while not ended.exists():
            time.sleep(0.01)


def the_methods_of_a_group(rank: int, ranks: int, file: str) -> None:
    """Called as those of PyTorch's own groups: without options, with one tensor."""
    join(rank, ranks, file)
    world: Any = dist.group.WORLD
    total = sum(inputs(peer, 4) for peer in range(ranks))
    sums: Any = (([inputs(rank, 4)], ()), (inputs(rank, 4), (dist.ReduceOp.SUM,)))
    for tensors, arguments in sums:
        world.allreduce(tensors, *arguments).wait()
        assert torch.equal(tensors[0] if isinstance(tensors, list) else tensors, total)
    x = inputs(rank, 4)
    assert world.allreduce([x]).get_future().value()[0] is x
    for root in range(ranks):
        x = inputs(rank, 4)
        world.broadcast(x, root=root).wait()
        assert torch.equal(x, inputs(root, 4))
    parts = [inputs(rank, peer + 1) for peer in range(ranks)]
    part = torch.empty(rank + 1)
    dist.reduce_scatter(part, parts)
    assert torch.equal(part, sum(inputs(peer, rank + 1) for peer in range(ranks)))
    dist.destroy_process_group()


def works_that_python_drops(rank: int, ranks: int, file: str) -> None:
    """DDP keeps the C++ half of a work alone when ranks have different numbers of inputs."""
    join(rank, ranks, file)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 5))
    x = torch.ones(1, 5)
    with model.join(divide_by_initial_world_size=False):
        for _ in range(2 + rank):
            model(x).sum().backward()
            model.zero_grad()
    for _ in range(200):  # that nobody waits for
        dist.all_reduce(torch.ones(2), async_op=True)
    last = torch.ones(2)
    dist.all_reduce(last)
    assert last.tolist() == [ranks] * 2
    dist.destroy_process_group()


def compiled(rank: int, ranks: int, file: str) -> None:
    """A compiled model comes to the gradients that it comes to without."""
    join(rank, ranks, file)
    torch.manual_seed(1)
    layer = torch.nn.Linear(5, 5)
    gradients = []
    for compile_it in (False, True):
        model: Any = torch.nn.parallel.DistributedDataParallel(layer)
        if compile_it:
            model = torch.compile(model, backend="aot_eager")
        for _ in range(2):
            model.zero_grad()
            model(torch.full((2, 5), float(rank))).square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for plain, other in zip(*gradients, strict=True):
        torch.testing.assert_close(plain, other)
    dist.destroy_process_group()


def normalised_rows(rank: int, ranks: int, file: str) -> None:
    """All_reduce, residual and RMS norm in one operator, which a compiler keeps whole."""
    join(rank, ranks, file)
    rows = [torch.randn(3, 64, generator=torch.Generator().manual_seed(r)) for r in range(ranks)]
    x, weight = rows[rank], torch.linspace(0.5, 1.5, 64)
    scale = torch.tensor(0.01)
    residual = torch.ones(3, 64)
    total = torch.stack(rows).sum(0) + 1
    expected = torch.nn.functional.rms_norm(total, (64,), weight, 1e-5)

    result = sennit.torch.all_reduce_rms_norm(x, residual, weight, 1e-5)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(residual, total)
    assert torch.equal(x, rows[rank])

    result, quantized = sennit.torch.all_reduce_rms_norm_fp8(
        x, torch.ones(3, 64), weight, scale, 1e-5, dist.group.WORLD
    )
    torch.testing.assert_close(result, expected)
    limited = (result / scale).clamp(-448, 448)
    assert torch.equal(quantized.float(), limited.to(torch.float8_e4m3fn).float())

    name = dist.group.WORLD.group_name

    def program(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return sennit.torch.all_reduce_rms_norm(x * 1, residual, weight, 1e-5, name) + 1

    residual = torch.ones(3, 64)
    compiled = torch.compile(program, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, residual), expected + 1)
    torch.testing.assert_close(residual, total)
    with pytest.raises(RuntimeError, match="weight must have one dimension of 64 elements"):
        sennit.torch.all_reduce_rms_norm(x, residual, weight[:3])
    dist.destroy_process_group()
