"""Training as real programs do it, of which each rank of a torch.distributed job runs its part."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BATCHES = 8
WARM_UP = 3
PROFILED = 2


def small_conv_net() -> nn.Module:
    """A net of a few layers, with statistics that DDP broadcasts."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    """Layers that are each sharded over the ranks."""
    return nn.Sequential(*[m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.ReLU())])


def with_ddp(model: nn.Module, device: torch.device) -> nn.Module:
    """The model, replicated; buckets are reduced while the backward pass goes on."""
    ids = [device.index] if device.type == "cuda" else None
    return DistributedDataParallel(model.to(device), device_ids=ids)


def with_fsdp(model: nn.Module, device: torch.device) -> nn.Module:
    """The model; its linear layers and residual blocks are each sharded, the rest together."""
    from torch.distributed.fsdp import fully_shard

    model.to(device)
    for part in list(model.modules()):
        if isinstance(part, nn.Linear) or type(part).__name__ == "Bottleneck":
            fully_shard(part)
    fully_shard(model)
    return model


def kernels(step: Callable[[], Any]) -> dict[str, int]:
    """Kernels of communication that some steps launch, by the library that they belong to."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(PROFILED):
            step()
        torch.cuda.synchronize()
    found: Counter[str] = Counter()
    for event in profile.events():
        for library in ("ncclDevKernel", "sennit"):
            found[library] += library in event.name
    return dict(found)


def handed_to_nccl() -> dict[str, int]:
    """Calls and bytes of input that PyTorch has recorded since the start of the process."""
    from torch._C._distributed_c10d import _dump_nccl_trace_json

    sizes = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8}
    entries = json.loads(_dump_nccl_trace_json(True, False)).get("entries", [])
    total = 0
    for entry in entries:
        for shape, kind in zip(entry["input_sizes"], entry["input_dtypes"], strict=True):
            count = 1
            for extent in shape:
                count *= extent
            total += count * sizes.get(kind, 1)
    return {"calls": len(entries), "input_bytes": total}


def if_known(question: Callable[[], dict[str, int]]) -> dict[str, Any]:
    """The answer, or why PyTorch does not give it here, which is no fault of what is tested."""
    try:
        return question()
    except Exception as error:  # a private interface of PyTorch may be another one tomorrow
        return {"not known": f"{type(error).__name__}: {error}"}


def train(
    wrapped: nn.Module, batches: list[tuple[Any, Any]], steps: int, loss_of: Any
) -> dict[str, Any]:
    """Steps over the batches in turn: the mean loss of all ranks at each, and the time of one."""
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01, momentum=0.9)
    losses = []
    device = batches[0][0].device
    since = time.perf_counter()

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = loss_of(wrapped(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss

    for number in range(steps):
        if number == WARM_UP:
            since = synchronized_time(device)
        losses.append(step(*batches[number % len(batches)]).detach())
    elapsed = synchronized_time(device) - since
    stacked = torch.stack(losses)
    dist.all_reduce(stacked)
    result: dict[str, Any] = {
        "losses": (stacked / dist.get_world_size()).tolist(),
        "ms_a_step": 1e3 * elapsed / (steps - WARM_UP),
    }
    if device.type == "cuda":
        result["kernels"] = if_known(lambda: kernels(partial(step, *batches[0])))
    return result


def synchronized_time(device: torch.device) -> float:
    """Now, with nothing running."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def images(count: int, device: torch.device, edge: int, classes: int) -> list[tuple[Any, Any]]:
    """Batches of this rank, the same in each run."""
    generator = torch.Generator().manual_seed(1000 + dist.get_rank())
    per_rank = 16
    return [
        (
            torch.randn(per_rank, 3, edge, edge, generator=generator).to(device),
            torch.randint(classes, (per_rank,), generator=generator).to(device),
        )
        for _ in range(count)
    ]


def vectors(count: int, device: torch.device) -> list[tuple[Any, Any]]:
    """Batches of this rank for the perceptron."""
    generator = torch.Generator().manual_seed(2000 + dist.get_rank())
    return [
        tuple(torch.randn(2, 32, 1024, generator=generator).to(device).unbind())
        for _ in range(count)
    ]


def run_all(device: torch.device, folder: Path, steps: int) -> None:
    """Trains each model; after each, rank 0 leaves in a file what it has seen."""
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    results: dict[str, Any] = {}

    def save() -> None:
        if dist.get_rank() == 0:
            (folder / "training.json").write_text(json.dumps(results), encoding="utf-8")

    def record(name: str, make: Callable[[], nn.Module], wrap: Any, batches: Any) -> None:
        print("begins:", name, flush=True)
        torch.manual_seed(1)
        loss_of = nn.functional.mse_loss if batches is vectors else nn.functional.cross_entropy
        try:
            wrapped = wrap(make(), device)
            results[name] = train(wrapped, batches(BATCHES, device), steps, loss_of)
        except ImportError as error:
            results[name] = {"absent": str(error)}
        save()

    def of_torchvision(name: str) -> nn.Module:
        import torchvision

        made: nn.Module = getattr(torchvision.models, name)()
        return made

    small = partial(images, edge=32, classes=10)
    large = partial(images, edge=224, classes=1000)
    record("conv net, DDP", small_conv_net, with_ddp, small)
    record("perceptron, FSDP2", perceptron, with_fsdp, vectors)
    if device.type == "cuda":
        record("ResNet50, DDP", lambda: of_torchvision("resnet50"), with_ddp, large)
        record("VGG16, DDP", lambda: of_torchvision("vgg16"), with_ddp, large)
        record("ResNet50, FSDP2", lambda: of_torchvision("resnet50"), with_fsdp, large)
        record("VGG16, FSDP2", lambda: of_torchvision("vgg16"), with_fsdp, large)
        results["handed to NCCL"] = if_known(handed_to_nccl)
    save()
