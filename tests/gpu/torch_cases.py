"""What each rank of a torch.distributed job does, so that two NCCLs can be compared.

A case gives a tensor or a list of tensors that must be the same over any library. Values are small
whole numbers, so that sums are exact in every type and order. Cases stand in suites: each is a job
of its own, so that what ends one leaves the others.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

Tensors = Any
Case = tuple[str, Callable[[], Tensors]]

ODD = 1003
LARGE = (1 << 20) + 3
# Beyond the size at which large calls take other ways than small ones.
HUGE = 1 << 24


class Cases:
    """The cases on one process group, all of whose ranks run them in the same order."""

    def __init__(self, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
        self.device = device
        self.group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def values(self, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A tensor of this rank's values."""
        return (torch.arange(count, device=self.device) % 7 + self.rank).to(dtype)

    def empty(self, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A tensor for results, of values that none has."""
        return torch.full((count,), 77, device=self.device).to(dtype)

    def global_rank(self, rank: int) -> int:
        """The number in the world of a rank of this group."""
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def operations(self) -> Iterator[Case]:
        """Each operation by itself."""
        yield from self.reductions()
        yield from self.moves()
        yield from self.uneven()
        yield from self.objects()
        yield from self.messages()

    def basic(self) -> Iterator[Case]:
        """A few cases, for many groups."""
        yield "all_reduce", partial(self.all_reduce, LARGE)
        yield "all_gather_into_tensor", partial(self.all_gather, LARGE)
        yield "reduce_scatter_tensor", partial(self.reduce_scatter, ODD)
        yield "all_to_all_single uneven", self.all_to_all_uneven
        yield "barrier", self.barrier
        yield "batch_isend_irecv, large and small", self.mixed

    def all_reduce(
        self, count: int, dtype: torch.dtype = torch.float32, op: Any = dist.ReduceOp.SUM
    ) -> torch.Tensor:
        x = self.values(count, dtype)
        dist.all_reduce(x, op, group=self.group)
        return x

    def reductions(self) -> Iterator[Case]:
        types: tuple[torch.dtype, ...] = (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int32,
        )
        types += (torch.int64, torch.int8, torch.uint8, torch.bool, torch.complex64)
        for dtype in types:
            yield f"all_reduce of {dtype}", partial(self.all_reduce, ODD, dtype)
        for count in (0, 1, LARGE, HUGE):
            yield f"all_reduce of {count}", partial(self.all_reduce, count)
        for name in ("AVG", "PRODUCT", "MIN", "MAX"):
            op = getattr(dist.ReduceOp, name)
            yield f"all_reduce {name}", partial(self.all_reduce, ODD, op=op)
        premul = getattr(dist, "_make_nccl_premul_sum", None)
        if premul is not None:
            yield "premul_sum", partial(self.all_reduce, ODD, op=premul(3.0))
            factor = torch.full((1,), 2.0, device=self.device)
            yield "premul_sum of a tensor", partial(self.all_reduce, ODD, op=premul(factor))
        yield "reduce_scatter_tensor", partial(self.reduce_scatter, ODD)
        yield "reduce_scatter_tensor, large", partial(self.reduce_scatter, HUGE // 8)
        yield "reduce_scatter", self.reduce_scatter_list
        for root in range(self.size):
            yield f"reduce to {root}", partial(self.reduce, root)

    def reduce_scatter(self, count: int) -> torch.Tensor:
        out = self.empty(count)
        dist.reduce_scatter_tensor(out, self.values(count * self.size), group=self.group)
        return out

    def reduce_scatter_list(self) -> torch.Tensor:
        out = self.empty(ODD)
        parts = [self.values(ODD) + part for part in range(self.size)]
        dist.reduce_scatter(out, parts, group=self.group)
        return out

    def reduce(self, root: int) -> Tensors:
        x = self.values(ODD)
        dist.reduce(x, self.global_rank(root), group=self.group)
        return x if self.rank == root else []

    def moves(self) -> Iterator[Case]:
        for root in range(self.size):
            yield f"broadcast from {root}", partial(self.broadcast, root, ODD)
            yield f"scatter from {root}", partial(self.scatter, root)
            yield f"gather to {root}", partial(self.gather, root)
        yield "broadcast, large", partial(self.broadcast, 1, HUGE)
        yield "all_gather_into_tensor", partial(self.all_gather, ODD)
        yield "all_gather_into_tensor, large", partial(self.all_gather, HUGE // 2)
        yield "all_gather", self.all_gather_list
        yield "all_to_all_single", partial(self.all_to_all, ODD)
        yield "all_to_all_single, large", partial(self.all_to_all, HUGE // 2)
        yield "all_to_all", self.all_to_all_list
        yield "barrier", self.barrier

    def broadcast(self, root: int, count: int) -> torch.Tensor:
        x = self.values(count)
        dist.broadcast(x, self.global_rank(root), group=self.group)
        return x

    def scatter(self, root: int) -> torch.Tensor:
        out = self.empty(ODD)
        parts = [self.values(ODD) + part for part in range(self.size)]
        source = self.global_rank(root)
        dist.scatter(out, parts if self.rank == root else None, source, group=self.group)
        return out

    def gather(self, root: int) -> Tensors:
        parts = [self.empty(ODD) for _ in range(self.size)]
        dist.gather(
            self.values(ODD),
            parts if self.rank == root else None,
            self.global_rank(root),
            group=self.group,
        )
        return parts if self.rank == root else []

    def all_gather(self, count: int) -> torch.Tensor:
        out = self.empty(count * self.size)
        dist.all_gather_into_tensor(out, self.values(count), group=self.group)
        return out

    def all_gather_list(self) -> Tensors:
        parts = [self.empty(ODD) for _ in range(self.size)]
        dist.all_gather(parts, self.values(ODD), group=self.group)
        return parts

    def all_to_all(self, count: int) -> torch.Tensor:
        out = self.empty(count * self.size)
        dist.all_to_all_single(out, self.values(count * self.size), group=self.group)
        return out

    def all_to_all_list(self) -> Tensors:
        out = [self.empty(ODD) for _ in range(self.size)]
        dist.all_to_all(out, [self.values(ODD) + i for i in range(self.size)], group=self.group)
        return out

    def barrier(self) -> Tensors:
        dist.barrier(group=self.group, device_ids=[self.device.index or 0])
        return []

    def uneven(self) -> Iterator[Case]:
        """Forms that PyTorch makes of groups of calls."""
        yield "all_to_all_single uneven", self.all_to_all_uneven
        yield "all_gather uneven", self.all_gather_uneven
        yield "reduce_scatter uneven", self.reduce_scatter_uneven
        yield "coalesced all_reduce", self.coalesced
        yield "coalesced all_gather_into_tensor", self.coalesced_gather

    def all_to_all_uneven(self) -> torch.Tensor:
        lengths = [100 * (self.rank + 1) * peer for peer in range(self.size)]
        arriving = [100 * (peer + 1) * self.rank for peer in range(self.size)]
        out = self.empty(sum(arriving))
        x = self.values(sum(lengths))
        dist.all_to_all_single(out, x, arriving, lengths, group=self.group)
        return out

    def all_gather_uneven(self) -> Tensors:
        parts = [self.empty(ODD * (rank + 1)) for rank in range(self.size)]
        dist.all_gather(parts, self.values(ODD * (self.rank + 1)), group=self.group)
        return parts

    def reduce_scatter_uneven(self) -> torch.Tensor:
        out = self.empty(ODD * (self.rank + 1))
        parts = [self.values(ODD * (rank + 1)) for rank in range(self.size)]
        dist.reduce_scatter(out, parts, group=self.group)
        return out

    def coalesced(self) -> Tensors:
        tensors = [self.values(count) for count in (1, ODD, LARGE)]
        with dist._coalescing_manager(self.group, device=self.device):
            for tensor in tensors:
                dist.all_reduce(tensor, group=self.group)
        return tensors

    def coalesced_gather(self) -> Tensors:
        outputs = [self.empty(count * self.size) for count in (1, ODD)]
        with dist._coalescing_manager(self.group, device=self.device):
            for output in outputs:
                part = self.values(output.numel() // self.size)
                dist.all_gather_into_tensor(output, part, group=self.group)
        return outputs

    def messages(self) -> Iterator[Case]:
        yield "send and recv in turn", self.turns
        yield "batch_isend_irecv around the ranks", partial(self.ring, ODD)
        yield "batch_isend_irecv around the ranks, large", partial(self.ring, HUGE)
        yield "batch_isend_irecv of all to all", self.mesh
        yield "batch_isend_irecv of all to all, large and small", self.mixed

    def turns(self) -> torch.Tensor:
        x = self.values(ODD)
        for receiver in range(1, self.size):
            if self.rank == receiver - 1:
                dist.send(x, self.global_rank(receiver), group=self.group)
            elif self.rank == receiver:
                dist.recv(x, self.global_rank(receiver - 1), group=self.group)
                x += 1
        return x

    def exchange(self, sends: dict[int, torch.Tensor], recvs: dict[int, torch.Tensor]) -> None:
        ops = [
            dist.P2POp(call, tensor, self.global_rank(peer), self.group)
            for call, tensors in ((dist.isend, sends), (dist.irecv, recvs))
            for peer, tensor in tensors.items()
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    def ring(self, count: int) -> torch.Tensor:
        out = self.empty(count)
        following = (self.rank + 1) % self.size
        self.exchange({following: self.values(count)}, {(self.rank - 1) % self.size: out})
        return out

    def mesh(self) -> Tensors:
        peers = [peer for peer in range(self.size) if peer != self.rank]
        out = {peer: self.empty(ODD * (peer + 1)) for peer in peers}
        self.exchange({peer: self.values(ODD * (self.rank + 1)) for peer in peers}, out)
        return list(out.values())

    def mixed(self) -> Tensors:
        """Messages that kernels and copy engines carry, in one group."""

        def count(sender: int, receiver: int) -> int:
            return HUGE if (sender + receiver) % 2 == 1 else ODD

        peers = [peer for peer in range(self.size) if peer != self.rank]
        out = {peer: self.empty(count(peer, self.rank)) for peer in peers}
        self.exchange({peer: self.values(count(self.rank, peer)) for peer in peers}, out)
        return list(out.values())

    def objects(self) -> Iterator[Case]:
        yield "all_gather_object", self.gather_objects
        yield "broadcast_object_list", self.broadcast_objects

    def gather_objects(self) -> torch.Tensor:
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, {"rank": self.rank, "text": "x" * self.rank}, self.group)
        return torch.tensor([entry["rank"] + len(entry["text"]) for entry in found])

    def broadcast_objects(self) -> torch.Tensor:
        found = [{"from": self.rank}, self.rank]
        dist.broadcast_object_list(found, self.global_rank(1), self.group, device=self.device)
        return torch.tensor([found[0]["from"], found[1]])

    def streams(self) -> Iterator[Case]:
        """Calls in several streams, and in graphs."""
        yield "calls that were not waited for, in order", self.asynchronous
        yield "calls in two streams in turns", self.interleaved
        if self.device.type == "cuda":
            yield "calls of a stream of the caller's", self.side_stream
            yield "a graph, replayed", self.graph

    def memory(self) -> Iterator[Case]:
        """Memory of ncclMemAlloc, after a call, which makes the communicator to register it on."""
        yield "all_reduce", partial(self.all_reduce, LARGE)
        if self.device.type == "cuda":
            yield "memory of ncclMemAlloc, registered", self.registered
        yield "all_reduce, afterwards", partial(self.all_reduce, LARGE)

    def asynchronous(self) -> Tensors:
        tensors = [self.values(LARGE) for _ in range(8)]
        works = [dist.all_reduce(x, group=self.group, async_op=True) for x in tensors]
        for work in works:
            work.wait()
        return tensors[-1]

    def interleaved(self) -> Tensors:
        """A call that is waited for runs in the caller's stream, another in PyTorch's own."""
        tensors = [self.values(LARGE + i) for i in range(40)]
        works = []
        for i, x in enumerate(tensors):
            work = dist.all_reduce(x, group=self.group, async_op=i % 2 == 0)
            works += [work] if work is not None else []
        for work in works:
            work.wait()
        return [x[:100] for x in tensors]

    def side_stream(self) -> torch.Tensor:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = self.all_reduce(LARGE)
        torch.cuda.current_stream().wait_stream(stream)
        return x

    def graph(self) -> torch.Tensor:
        x = self.values(ODD)
        dist.all_reduce(x.clone(), group=self.group)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(x, group=self.group)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        return x

    def registered(self) -> torch.Tensor:
        """What lies in the pool goes before the pool does, which frees its memory when it ends."""
        group = self.group or dist.group.WORLD
        backend = group._get_backend(self.device)
        pool = torch.cuda.MemPool(backend.mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            x = self.values(LARGE).clone()
        backend.register_mem_pool(pool)
        dist.all_reduce(x, group=self.group)
        result = x.cpu()
        torch.cuda.synchronize()
        backend.deregister_mem_pool(pool)
        del x
        del pool
        return result


def digest(tensor: torch.Tensor) -> str:
    """The tensor's type, shape, bits (by their hash) and first values."""
    host = tensor.detach().cpu().contiguous()
    plain = torch.view_as_real(host).contiguous() if host.is_complex() else host
    bits = hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy())
    first = host.flatten()[:4].tolist()
    return f"{host.dtype} {list(host.shape)} {bits.hexdigest()[:16]} {first}"


def outcome(case: Callable[[], Tensors]) -> list[str] | str:
    """What the case gives; or the error that it ended with."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = case()
        return [digest(tensor) for tensor in (result if isinstance(result, list) else [result])]
    except Exception as error:  # any error is an outcome that the two libraries may differ in
        return f"{type(error).__name__}: {error}"
