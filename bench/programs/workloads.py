"""The programs of the benchmark of programs, in plain PyTorch.

A program is made on every rank and then runs steps; a step returns what shows that it was right.
Each has sizes for GPUs, and small ones with which the benchmark itself is tested on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
import turbulence
from torch import Tensor, nn
from torch.nn import functional

# PyTorch 2.11 has it under one of these names.
grouped_mm = getattr(functional, "grouped_mm", None) or torch._grouped_mm

Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Sizes:
    """Of a transformer, and of what it is given."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    tokens: int  # of a rank; in decode of all, and one of each sequence
    context: int = 0  # of decode: earlier tokens of a sequence
    experts: int = 0  # of all ranks
    fp8: bool = False  # decode: weights, and what they are multiplied with


FP8 = torch.float8_e4m3fn
SCALE = 1 / 32
"""Of all tensors in FP8; what they hold is below 448 / 32."""
EPSILON = 1e-6
"""Of all norms of decode."""


def random(*shape: int, like: torch.device, scale: float = 0.02) -> Tensor:
    """Weights in bfloat16."""
    return torch.randn(shape, device=like, dtype=torch.bfloat16) * scale


def quantized(x: Tensor, scale: Tensor) -> Tensor:
    """FP8 in place of bfloat16."""
    return (x / scale).clamp(-448, 448).to(FP8)


def add_and_norm(partial: Tensor, x: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
    """Add to x, and normalise that; with a scale, in FP8."""
    x += partial
    rows = functional.rms_norm(x, weight.shape, weight, EPSILON)
    return rows if scale is None else quantized(rows, scale)


class ThreeCalls:
    """What decode does with a product that is a part of a sum over all ranks.

    An all_reduce, the addition of x and the norm; with a scale, FP8 takes kernels of its own.
    """

    def room(self, like: Tensor) -> Tensor | None:
        """Where a product of this shape has to be; None: anywhere."""
        del like
        return None

    def run(self, partial: Tensor, x: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
        """Add the sum to x, and normalise that; with a scale, in FP8."""
        dist.all_reduce(partial)
        return add_and_norm(partial, x, weight, scale)


class Compiled(ThreeCalls):
    """An all_reduce, and one kernel by torch.compile for all else."""

    _rest = staticmethod(torch.compile(add_and_norm))

    def run(self, partial: Tensor, x: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
        """In two kernels."""
        dist.all_reduce(partial)
        return self._rest(partial, x, weight, scale)


class SymmetricMemory(ThreeCalls):
    """The same with PyTorch's own kernel, which reads the memory of peers."""

    def room(self, like: Tensor) -> Tensor | None:
        """Memory that all ranks map."""
        import torch.distributed._symmetric_memory as symmetric

        made: Tensor = symmetric.empty(like.shape, dtype=like.dtype, device=like.device)
        symmetric.rendezvous(made, dist.group.WORLD.group_name)
        return made

    def run(self, partial: Tensor, x: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
        """With an all_reduce that leaves its input as it is."""
        group = dist.group.WORLD.group_name
        total = torch.ops.symm_mem.one_shot_all_reduce(partial, "sum", group)
        return add_and_norm(total, x, weight, scale)


class OneCall(ThreeCalls):
    """By backend `sennit`."""

    def run(self, partial: Tensor, x: Tensor, weight: Tensor, scale: Tensor | None) -> Tensor:
        """In one kernel where messages are small."""
        import sennit.torch

        if scale is not None:
            return sennit.torch.all_reduce_rms_norm_fp8(partial, x, weight, scale, EPSILON)[1]
        return sennit.torch.all_reduce_rms_norm(partial, x, weight, EPSILON)


WAYS: dict[str, type[ThreeCalls]] = {
    "three calls": ThreeCalls,
    "compiled": Compiled,
    "symmetric memory": SymmetricMemory,
    "one call": OneCall,
}


def decode(sizes: Sizes, device: torch.device, way: str = "three calls") -> Step:
    """One token of each sequence by a model that the ranks have split (tensor parallelism).

    Two all_reduces of tokens x hidden bfloat16 a layer, in one CUDA graph on GPUs.
    """

    def weights(rows: int, columns: int) -> Tensor:
        if not sizes.fp8:
            return random(rows, columns, like=device)
        return quantized(random(columns, rows, like=device), scale).t()

    def product(x: Tensor, weights: Tensor, out: Tensor | None = None) -> Tensor:
        if not sizes.fp8:
            return torch.mm(x, weights, out=out)
        x = x if x.dtype == FP8 else quantized(x, scale)
        out = x.new_empty(len(x), weights.shape[1], dtype=torch.bfloat16) if out is None else out
        result: Tensor = torch._scaled_mm(
            x, weights, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, out=out
        )
        return result

    ranks = dist.get_world_size()
    heads, width = sizes.heads // ranks, sizes.hidden // sizes.heads
    inner = sizes.feed_forward // ranks
    torch.manual_seed(1 + dist.get_rank())
    scale = torch.tensor(SCALE, device=device)
    layers = [
        {
            "qkv": weights(sizes.hidden, 3 * heads * width),
            "out": weights(heads * width, sizes.hidden),
            "gate_up": weights(sizes.hidden, 2 * inner),
            "down": weights(inner, sizes.hidden),
            "cache": random(2, sizes.tokens, heads, sizes.context, width, like=device),
        }
        for _ in range(sizes.layers)
    ]
    torch.manual_seed(1)
    inputs = random(sizes.tokens, sizes.hidden, like=device, scale=1)
    weight = torch.ones(sizes.hidden, device=device, dtype=torch.bfloat16)
    sums = WAYS[way]()
    room = sums.room(inputs)

    def forward() -> Tensor:
        x = inputs.clone()
        normalised = functional.rms_norm(x, weight.shape, weight, EPSILON)
        for layer in layers:
            qkv = product(normalised, layer["qkv"])
            query, key, value = qkv.view(sizes.tokens, 3, heads, 1, width).unbind(1)
            keys, values = layer["cache"]
            keys[:, :, -1:], values[:, :, -1:] = key, value
            attended = functional.scaled_dot_product_attention(query, keys, values)
            mixed = attended.view(sizes.tokens, heads * width)
            partial = product(mixed, layer["out"], out=room)
            normalised = sums.run(partial, x, weight, scale if sizes.fp8 else None)
            gate, up = product(normalised, layer["gate_up"]).chunk(2, dim=1)
            partial = product(functional.silu(gate) * up, layer["down"], out=room)
            normalised = sums.run(partial, x, weight, scale if sizes.fp8 else None)
        return normalised

    if device.type != "cuda":
        return lambda: forward().float().norm()
    for _ in range(3):
        forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = forward().float().norm()

    def replay(reads: Callable[[], Tensor] = forward) -> Tensor:
        del reads  # held with the memory that the graph reads
        graph.replay()
        return result

    return replay


def mixture_of_experts(sizes: Sizes, device: torch.device) -> Step:
    """Layers whose tokens go to two of the experts each, wherever these are.

    Three all_to_alls a layer: how many tokens go where, the tokens, and their results; the last two
    have lengths of their own for each pair of ranks.
    """
    ranks, rank = dist.get_world_size(), dist.get_rank()
    own, chosen = sizes.experts // ranks, 2
    torch.manual_seed(1)
    router = random(sizes.layers, sizes.hidden, sizes.experts, like=device, scale=1)
    torch.manual_seed(2 + rank)
    # With the inner dimension last, as kernels for tensor cores want it.
    inner, outer = sizes.feed_forward, sizes.hidden
    widen = random(sizes.layers, own, inner, outer, like=device).transpose(2, 3)
    narrow = random(sizes.layers, own, outer, inner, like=device).transpose(2, 3)
    inputs = random(sizes.tokens, sizes.hidden, like=device, scale=1)

    def experts_of(layer: int, tokens: Tensor, counts: Tensor) -> Tensor:
        # They come ordered by their rank, and of each by the expert.
        expert = torch.arange(own, device=device).repeat(ranks)
        order = torch.repeat_interleave(expert, counts).argsort(stable=True)
        ends = counts.view(ranks, own).sum(0).cumsum(0, dtype=torch.int32)
        wide = functional.silu(grouped_mm(tokens[order], widen[layer], offs=ends))
        results = torch.empty_like(tokens)
        results[order] = grouped_mm(wide, narrow[layer], offs=ends)
        return results

    def step() -> Tensor:
        x = inputs
        for layer in range(sizes.layers):
            scores, expert = (x @ router[layer]).float().softmax(1).topk(chosen, dim=1)
            order = expert.flatten().argsort(stable=True)
            counts = torch.bincount(expert.flatten(), minlength=sizes.experts)
            coming = torch.empty_like(counts)
            dist.all_to_all_single(coming, counts)
            sends = counts.view(ranks, own).sum(1).tolist()
            recvs = coming.view(ranks, own).sum(1).tolist()
            source = torch.div(order, chosen, rounding_mode="floor")
            tokens = x.new_empty(sum(recvs), sizes.hidden)
            dist.all_to_all_single(tokens, x[source], recvs, sends)
            results = x.new_empty(len(order), sizes.hidden)
            dist.all_to_all_single(results, experts_of(layer, tokens, coming), sends, recvs)
            weighted = results * scores.flatten()[order, None].to(x.dtype)
            x = functional.rms_norm(x.index_add(0, source, weighted), (sizes.hidden,))
        return x.float().norm()

    return step


def one_all_reduce(sizes: Sizes, device: torch.device) -> Step:
    """A call of tokens x hidden bfloat16, which is waited for."""
    shape, like = (sizes.tokens, sizes.hidden), torch.bfloat16
    x = torch.full(shape, 1.0 + dist.get_rank(), device=device, dtype=like)
    # A sum in place would grow from step to step.
    return waited_for(lambda: dist.all_reduce(x, dist.ReduceOp.MAX), x)


def one_all_to_all(sizes: Sizes, device: torch.device) -> Step:
    """The same, of messages that are not of one length."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    most = sizes.tokens // ranks
    lengths = [
        [most // 2 + (3 * a + 5 * b) % (most // 2) for b in range(ranks)] for a in range(ranks)
    ]
    sends = lengths[rank]
    recvs = [lengths[peer][rank] for peer in range(ranks)]
    x = torch.full((sum(sends), sizes.hidden), 1.0 + rank, device=device, dtype=torch.bfloat16)
    y = torch.empty(sum(recvs), sizes.hidden, device=device, dtype=torch.bfloat16)
    return waited_for(lambda: dist.all_to_all_single(y, x, recvs, sends), y)


def one_ring(sizes: Sizes, device: torch.device) -> Step:
    """The same, to the next rank and from the one before."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    shape = (sizes.tokens, sizes.hidden)
    x = torch.full(shape, 1.0 + rank, device=device, dtype=torch.bfloat16)
    y = torch.empty_like(x)
    pair = [
        dist.P2POp(dist.isend, x, (rank + 1) % ranks),
        dist.P2POp(dist.irecv, y, (rank - 1) % ranks),
    ]

    def call() -> None:
        for work in dist.batch_isend_irecv(pair):
            work.wait()

    return waited_for(call, y)


def waited_for(call: Callable[[], Any], result: Tensor) -> Step:
    """One call a step, whose end the host awaits."""

    def step() -> Tensor:
        call()
        if result.is_cuda:
            torch.cuda.synchronize()
        return result[:, 0].float().mean()

    return step


class Layer(nn.Module):
    """Of a transformer that is trained."""

    def __init__(self, sizes: Sizes) -> None:
        """Make its weights."""
        super().__init__()
        self._heads = sizes.heads
        self.qkv = nn.Linear(sizes.hidden, 3 * sizes.hidden, bias=False)
        self.out = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.widen = nn.Linear(sizes.hidden, sizes.feed_forward, bias=False)
        self.narrow = nn.Linear(sizes.feed_forward, sizes.hidden, bias=False)
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.hidden) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Of [sequence, token, hidden]."""
        sequences, tokens, hidden = x.shape
        qkv = self.qkv(self.norms[0](x)).view(sequences, tokens, 3, self._heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(sequences, tokens, hidden))
        return x + self.narrow(functional.gelu(self.widen(self.norms[1](x))))


def training(
    sizes: Sizes, device: torch.device, wrap: Callable[[nn.ModuleList], nn.Module], half: bool
) -> Step:
    """A step of SGD on noise; `wrap` makes the model one of all ranks."""
    torch.manual_seed(1)
    with device:
        layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
    model = wrap(layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    torch.manual_seed(1 + dist.get_rank())
    sequence = min(1024, sizes.tokens)
    inputs = torch.randn(sizes.tokens // sequence, sequence, sizes.hidden, device=device)

    def step() -> Tensor:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            loss: Tensor = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class InOrder(nn.Module):
    """Layers one after the other."""

    def __init__(self, layers: nn.ModuleList) -> None:
        """Take them."""
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Through all."""
        for layer in self.layers:
            x = layer(x)
        return x


def fsdp2(sizes: Sizes, device: torch.device) -> Step:
    """Shards: all_gathers of parameters in bfloat16, reduce_scatters of gradients in float32."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def wrap(layers: nn.ModuleList) -> nn.Module:
        for layer in layers:
            fully_shard(layer, mp_policy=policy)
        model: nn.Module = fully_shard(InOrder(layers), mp_policy=policy)
        return model

    return training(sizes, device, wrap, half=False)


def ddp(sizes: Sizes, device: torch.device) -> Step:
    """All_reduces of float32 gradients in buckets of 25 MB."""

    def wrap(layers: nn.ModuleList) -> nn.Module:
        ids = [device.index] if device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(InOrder(layers), device_ids=ids)

    return training(sizes, device, wrap, half=device.type == "cuda")


def decoding(tokens: int, *, fp8: bool = False) -> Sizes:
    """Of a model of 7 billion parameters."""
    return Sizes(32, 4096, 11008, heads=32, tokens=tokens, context=512, fp8=fp8)


def simulated(sizes: Sizes, device: torch.device) -> Step:
    """Of a box with so many tokens a side."""
    return turbulence.simulation(sizes.tokens, device)


def single(kilobytes: int) -> Sizes:
    """Of a call of so many KB, in rows of 256 bfloat16."""
    return Sizes(1, 256, 0, heads=0, tokens=2 * kilobytes)


def routing(tokens: int) -> Sizes:
    """Of four layers with 16 experts."""
    return Sizes(4, 2048, 1408, heads=0, tokens=tokens, experts=16)


PROGRAMS: dict[str, tuple[Callable[[Sizes, torch.device], Step], Sizes]] = {
    "decode, 1 token": (decode, decoding(1)),
    "decode, 8 tokens": (decode, decoding(8)),
    "decode, 64 tokens": (decode, decoding(64)),
    "decode FP8, 1 token": (decode, decoding(1, fp8=True)),
    "decode FP8, 8 tokens": (decode, decoding(8, fp8=True)),
    "MoE, 64 tokens": (mixture_of_experts, routing(64)),
    "MoE, 512 tokens": (mixture_of_experts, routing(512)),
    "MoE, 4096 tokens": (mixture_of_experts, routing(4096)),
    "turbulence, 256": (simulated, Sizes(1, 0, 0, heads=0, tokens=256)),
    "one all_reduce, 256 KB": (one_all_reduce, single(256)),
    "one all_reduce, 1 MB": (one_all_reduce, single(1024)),
    "one uneven all_to_all, 256 KB": (one_all_to_all, single(256)),
    "one uneven all_to_all, 1 MB": (one_all_to_all, single(1024)),
    "one ring, 64 KB": (one_ring, single(64)),
    "one ring, 1 MB": (one_ring, single(1024)),
    "FSDP2": (fsdp2, Sizes(8, 4096, 16384, heads=32, tokens=4096)),
    "DDP": (ddp, Sizes(8, 2048, 8192, heads=16, tokens=4096)),
}

TINY: dict[Callable[..., Step], Sizes] = {
    decode: Sizes(1, 32, 64, heads=4, tokens=1, context=4),
    mixture_of_experts: Sizes(1, 16, 16, heads=0, tokens=8, experts=4),
    fsdp2: Sizes(1, 16, 32, heads=2, tokens=8),
    ddp: Sizes(1, 16, 32, heads=2, tokens=8),
    simulated: Sizes(1, 0, 0, heads=0, tokens=16),
    **dict.fromkeys((one_all_reduce, one_all_to_all, one_ring), single(4)),
}
"""For tests on CPUs."""


def made(name: str, device: torch.device, way: str) -> Step:
    """A program, ready to run; decode sums in this way."""
    make, sizes = PROGRAMS[name]
    sizes = sizes if device.type == "cuda" else replace(TINY[make], fp8=sizes.fp8)
    return decode(sizes, device, way) if make is decode else make(sizes, device)


def numbers(step: Step, count: int) -> Any:
    """What the last of so many steps returned, as a number."""
    for _ in range(count):
        result = step()
    return result.item()
