"""What ranks of PyTorch do in tests: every operation by the backend sennit and by Gloo."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
import sennit
import torch
import torch.distributed as dist

import sennit.torch  # isort: skip

TIMEOUT = datetime.timedelta(seconds=60)


def join(rank: int, ranks: int, file: str) -> Any:
    """Make the default group ours; give one of Gloo of the same ranks."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "sennit", init_method=f"file://{file}", rank=rank, world_size=ranks, timeout=TIMEOUT
    )
    return dist.new_group(backend="gloo")


def inputs(rank: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers that encode rank and place: sums are exact in any order."""
    return (torch.arange(count) * 7 % 13 + rank * 5).to(dtype)


def same(what: str, call: Callable[[Any], Any], gloo: Any) -> None:
    """Compare what a call gives with either group; None is ours."""
    ours, theirs = call(None), call(gloo)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other), f"{what}: {mine} is not {other}"


def collectives(rank: int, ranks: int, file: str) -> None:
    """Every collective, of several types and sizes, as Gloo does it."""
    gloo = join(rank, ranks, file)
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8):
        for count in (1, 5, 4096, 70_001):
            reductions(rank, count, dtype, gloo)
            movements(rank, ranks, count, dtype, gloo)
    lists(rank, ranks, gloo)
    dist.barrier()
    dist.destroy_process_group()


def reductions(rank: int, count: int, dtype: torch.dtype, gloo: Any) -> None:
    """all_reduce, reduce."""
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX):

        def all_reduce(group: Any, op: Any = op) -> list[torch.Tensor]:
            x = inputs(rank, count, dtype)
            dist.all_reduce(x, op=op, group=group)
            return [x]

        def reduce(group: Any, op: Any = op) -> list[torch.Tensor]:
            x = inputs(rank, count, dtype)
            dist.reduce(x, 1, op=op, group=group)
            return [x] if rank == 1 else []

        same(f"all_reduce {op} {dtype} {count}", all_reduce, gloo)
        same(f"reduce {op} {dtype} {count}", reduce, gloo)


def movements(rank: int, ranks: int, count: int, dtype: torch.dtype, gloo: Any) -> None:
    """broadcast, all_gather, all_gather_into_tensor, all_to_all_single."""

    def broadcast(group: Any) -> list[torch.Tensor]:
        x = inputs(rank, count, dtype)
        dist.broadcast(x, 1, group=group)
        return [x]

    def all_gather(group: Any) -> list[torch.Tensor]:
        outs = [torch.empty(count, dtype=dtype) for _ in range(ranks)]
        dist.all_gather(outs, inputs(rank, count, dtype), group=group)
        return outs

    def all_gather_into_tensor(group: Any) -> list[torch.Tensor]:
        out = torch.empty(ranks * count, dtype=dtype)
        dist.all_gather_into_tensor(out, inputs(rank, count, dtype), group=group)
        return [out]

    def all_to_all(group: Any) -> list[torch.Tensor]:
        out = torch.empty(ranks * count, dtype=dtype)
        dist.all_to_all_single(out, inputs(rank, ranks * count, dtype), group=group)
        return [out]

    for call in (broadcast, all_gather, all_gather_into_tensor, all_to_all):
        same(f"{call.__name__} {dtype} {count}", call, gloo)


def lists(rank: int, ranks: int, gloo: Any) -> None:
    """Forms with lists and uneven parts; those that Gloo lacks against what they must give."""

    def gather(group: Any) -> list[torch.Tensor]:
        outs = [torch.empty(2, 3) for _ in range(ranks)] if rank == 0 else None
        dist.gather(inputs(rank, 6).view(2, 3), outs, dst=0, group=group)
        return outs or []

    def scatter(group: Any) -> list[torch.Tensor]:
        out = torch.empty(3)
        parts = list(inputs(rank, 3 * ranks).chunk(ranks)) if rank == 1 else None
        dist.scatter(out, parts, src=1, group=group)
        return [out]

    def uneven(group: Any) -> list[torch.Tensor]:
        sent = [peer + 1 for peer in range(ranks)]
        received = [rank + 1] * ranks
        out = torch.empty(sum(received), 2)
        x = inputs(rank, 2 * sum(sent)).view(-1, 2)
        dist.all_to_all_single(out, x, received, sent, group=group)
        return [out]

    for call in (gather, scatter, uneven):
        same(call.__name__, call, gloo)

    whole = sum(inputs(peer, 4 * ranks) for peer in range(ranks))
    part = torch.empty(4)
    dist.reduce_scatter(part, list(inputs(rank, 4 * ranks).chunk(ranks)))
    assert torch.equal(part, whole.chunk(ranks)[rank])
    part.zero_()
    dist.reduce_scatter_tensor(part, inputs(rank, 4 * ranks))
    assert torch.equal(part, whole.chunk(ranks)[rank])

    outs = [torch.empty(peer + 1) for peer in range(ranks)]
    dist.all_to_all(outs, [inputs(rank, rank + 1) + peer for peer in range(ranks)])
    for peer, out in enumerate(outs):
        assert torch.equal(out, inputs(peer, peer + 1) + rank)

    both = [inputs(rank, 3), inputs(rank, 5)]
    dist.all_reduce_coalesced(both)
    for x in both:
        assert torch.equal(x, sum(inputs(peer, x.numel()) for peer in range(ranks)))
    mean = inputs(rank, 3)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(mean, sum(inputs(peer, 3) for peer in range(ranks)) / ranks)


def tagged_messages(rank: int, ranks: int, file: str) -> None:
    """Tags in another order than that of the sends; recvs from any rank say who sent."""
    join(rank, ranks, file)
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    works = [dist.isend(inputs(rank, 100 * tag), to, tag=tag) for tag in (1, 2, 3)]
    for tag in (3, 1, 2):
        got = torch.empty(100 * tag)
        assert dist.recv(got, source, tag=tag) == source
        assert torch.equal(got, inputs(source, 100 * tag))
    for work in works:
        work.wait()
    if rank == 0:
        seen = []
        for _ in range(ranks - 1):
            got = torch.empty(10)
            sender = dist.recv(got, tag=7)
            assert torch.equal(got, inputs(sender, 10))
            seen.append(sender)
        assert sorted(seen) == list(range(1, ranks))
    else:
        dist.send(inputs(rank, 10), 0, tag=7)
    pending = dist.irecv(torch.empty(4), tag=9)
    dist.batch_isend_irecv([dist.P2POp(dist.isend, inputs(rank, 4), to, tag=9)])
    pending.wait()
    assert pending._source_rank() == source
    dist.destroy_process_group()


def messages(rank: int, ranks: int, file: str) -> None:
    """send, recv, isend, irecv, batches, and objects round a ring."""
    join(rank, ranks, file)
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    got = torch.empty(1000)
    works = [dist.isend(inputs(rank, 1000), to), dist.irecv(got, source)]
    for work in works:
        work.wait()
    assert torch.equal(got, inputs(source, 1000))
    if rank == 0:
        dist.send(inputs(9, 5), 1)
    elif rank == 1:
        small = torch.empty(5)
        dist.recv(small, 0)
        assert torch.equal(small, inputs(9, 5))
    got.zero_()
    batch = [
        dist.P2POp(dist.irecv, got, source),
        dist.P2POp(dist.isend, inputs(rank, 1000), to),
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert torch.equal(got, inputs(source, 1000))
    objects: list[Any] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": peer} for peer in range(ranks)]
    later = inputs(rank, 10)
    work = dist.all_reduce(later, async_op=True)
    while not work.is_completed():
        pass
    assert work.is_success()
    assert torch.equal(later, sum(inputs(peer, 10) for peer in range(ranks)))
    dist.destroy_process_group()


def sparse(rank: int, ranks: int, file: str) -> None:
    """all_reduce adds sparse tensors, which the ranks fill differently or not at all."""
    join(rank, ranks, file)

    def of(peer: int) -> torch.Tensor:
        indices = [[(peer * 3 + i) % 7 for i in range(peer * 2)], [i % 2 for i in range(peer * 2)]]
        values = torch.arange(peer * 4.0).view(-1, 2)
        return torch.sparse_coo_tensor(torch.tensor(indices).long(), values, (7, 2, 2))

    total = sum(of(peer).to_dense() for peer in range(ranks))
    dist.all_reduce(x := of(rank))
    assert x.is_sparse
    assert torch.equal(x.to_dense(), total)
    dist.all_reduce(x := of(rank), op=dist.ReduceOp.AVG)
    torch.testing.assert_close(x.to_dense(), total / ranks)
    layer = torch.nn.Embedding(10, 3, sparse=True)
    torch.nn.init.constant_(layer.weight, 1.0)
    model = torch.nn.parallel.DistributedDataParallel(layer)
    model(torch.tensor([rank, 9])).sum().backward()
    expected = torch.zeros(10, 3)
    expected[:ranks] = 1 / ranks
    expected[9] = 1
    torch.testing.assert_close(layer.weight.grad.to_dense(), expected)
    with pytest.raises(RuntimeError, match="sums sparse tensors"):
        dist.all_reduce(of(rank), op=dist.ReduceOp.MAX)
    dist.destroy_process_group()


def dense_orders(rank: int, ranks: int, file: str) -> None:
    """Elements find each other by index, however densely each rank's tensor lies in memory."""
    join(rank, ranks, file)

    def lying_anyhow(values: torch.Tensor) -> torch.Tensor:
        if rank % 3 == 0:
            return values.clone()
        if rank % 3 == 1:
            return values.contiguous(memory_format=torch.channels_last)
        return values.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)

    def part(of: int) -> torch.Tensor:
        return inputs(of, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)

    total = sum(part(peer) for peer in range(ranks))
    x = lying_anyhow(part(rank))
    strides = x.stride()
    dist.all_reduce(x)
    assert torch.equal(x, total)
    assert x.stride() == strides
    work = dist.all_reduce(x := lying_anyhow(part(rank)), async_op=True)
    assert work is not None
    work.wait()
    assert torch.equal(x, total)
    dist.broadcast(x := lying_anyhow(part(rank)), 1)
    assert torch.equal(x, part(1))
    dist.reduce(x := lying_anyhow(part(rank)), 1)
    assert rank != 1 or torch.equal(x, total)
    got = lying_anyhow(torch.zeros(2, 3, 4, 5))
    source = (rank - 1) % ranks
    works = [
        dist.isend(lying_anyhow(part(rank)), (rank + 1) % ranks),
        dist.irecv(got, source),
    ]
    for one in works:
        assert one is not None
        one.wait()
    assert torch.equal(got, part(source))
    dist.destroy_process_group()


def lazy_views(rank: int, ranks: int, file: str) -> None:
    """PyTorch gives backends a copy of a lazy view: an input is right, an output would be lost."""
    gloo = join(rank, ranks, file)
    peer, x = 1 - rank, torch.ones(2)
    world: Any = dist.group.WORLD

    def negated() -> torch.Tensor:
        return torch._neg_view(torch.full((2,), rank + 1.0))

    def conjugated() -> torch.Tensor:
        return torch.tensor([1 + 2j, 3.0]).conj()

    outputs: tuple[Callable[[], Any], ...] = (
        lambda: dist.all_reduce(negated()),
        lambda: dist.all_reduce_coalesced([x, negated()]),
        lambda: dist.broadcast(negated(), 0),
        lambda: dist.reduce(negated(), 0),
        lambda: dist.recv(negated(), peer),
        lambda: world.recv([conjugated()], peer, 0),
        lambda: dist.all_gather([x, negated()], x),
        lambda: dist.all_gather_into_tensor(torch._neg_view(torch.ones(4)), x),
        lambda: dist.reduce_scatter_tensor(negated(), torch.ones(4)),
        lambda: dist.reduce_scatter(negated(), [x, x]),
        lambda: dist.all_to_all_single(negated(), x),
        lambda: dist.all_to_all([negated(), x], [x, x]),
        lambda: dist.scatter(negated(), [x, x] if rank == 0 else None, 0),
    )
    if rank == 0:
        outputs += (lambda: dist.gather(x, [x.clone(), negated()], 0),)
    for call in outputs:
        with pytest.raises(sennit.Unsupported, match=r"resolve_conj\(\).resolve_neg\(\)"):
            call()
    for group in (world, gloo):
        got = torch.zeros(4)
        dist.all_gather_into_tensor(got, negated(), group=group)
        assert got.tolist() == [-1.0, -1.0, -2.0, -2.0]
    # Complex numbers of functions become pairs of real ones; those of methods do not.
    sent = world.send([conjugated()], peer, 0)
    world.recv([pair := torch.zeros(2, dtype=torch.complex64)], peer, 0).wait()
    sent.wait()
    assert pair.tolist() == [1 - 2j, 3 + 0j]
    dist.broadcast(negated(), 0, group=gloo)  # PyTorch's own backends go on as without us
    dist.destroy_process_group()


def groups(rank: int, ranks: int, file: str) -> None:
    """A group of some of the ranks, next to that of all."""
    join(rank, ranks, file)
    some = dist.new_group([0, ranks - 1])
    x = torch.ones(3)
    if rank in (0, ranks - 1):
        dist.all_reduce(x, group=some)
        assert torch.equal(x, torch.full((3,), 2.0))
    dist.all_reduce(x)
    assert x[0] == ranks + 2
    dist.destroy_process_group()


def refusals(rank: int, ranks: int, file: str) -> None:
    """What cannot be done is refused before anything moves, with a sentence."""
    join(rank, ranks, file)
    same_tensor = torch.ones(2)
    x = torch.ones(4)
    # PyTorch's dispatcher refuses it before the backend is asked.
    with pytest.raises(NotImplementedError):
        dist.broadcast(torch.eye(3).to_sparse(), 0)
    cases: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("contiguous", lambda: dist.all_reduce(torch.ones(4, 4)[:, :2])),
        ("contiguous", lambda: dist.broadcast(torch.ones(1, 4).expand(4, 4), 0)),
        ("contiguous", lambda: dist.all_gather_into_tensor(torch.ones(ranks, 4).t(), x)),
        ("negative", lambda: dist.send(torch.ones(1), (rank + 1) % ranks, tag=-3)),
        ("stands twice", lambda: dist.all_reduce_coalesced([same_tensor, same_tensor])),
    )
    for words, call in cases:
        with pytest.raises(sennit.Error, match=words):
            call()
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x[0] == ranks
    dist.destroy_process_group()
