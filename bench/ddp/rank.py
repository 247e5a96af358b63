"""One rank of the training benchmark: it takes orders from standard input and answers each.

    rank.py --backend sennit|gloo|nccl --store FILE --compute float32|bfloat16

RANK and WORLD_SIZE are in the environment. Orders and answers are JSON objects, one a line:

    {"do": "about"}                                              what runs here
    {"do": "build", "model", "bucket_mb", "images", "edge"}      a model, wrapped in DDP
    {"do": "steps", "count", "counted"}                          trains it, on one batch
    {"do": "drop"}                                               what has become of it

Between orders nothing runs, so that another job can have the device then.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import math
import os
import platform
import sys
import time
from collections import Counter
from typing import Any

import torch
import torch.distributed as dist
from models import CLASSES, MODELS
from torch import nn
from torch.nn.parallel import DistributedDataParallel

Sizes = dict[str, Counter[int]]

TITLES = {"sennit:all_reduce": "all_reduce", "sennit:broadcast": "broadcast"}
BYTES = {"float": 4, "long int": 8}
"""Of an element, by the name that PyTorch's profiler has for its type."""


def messages(profiler: Any) -> Sizes:
    """The sizes of the messages that PyTorch has handed to the backend `sennit`."""
    sizes: Sizes = {name: Counter() for name in TITLES.values()}
    for event in profiler.profiler.kineto_results.events():
        if event.name() in TITLES:
            tensors = zip(event.shapes(), event.dtypes(), strict=True)
            sizes[TITLES[event.name()]].update(
                math.prod(shape) * BYTES[dtype] for shape, dtype in tensors
            )
    return sizes


class Rank:
    """A process of the job."""

    def __init__(self, backend: str, store: str, compute: str) -> None:
        """Join the others."""
        self._rank = int(os.environ["RANK"])
        self._device = torch.device("cpu")
        if backend == "nccl":
            self._device = torch.device("cuda", self._rank)
            torch.cuda.set_device(self._device)
        self._compute = compute
        self._has_messages = backend == "sennit"
        if backend == "sennit":
            importlib.import_module("sennit.torch")
        dist.init_process_group(
            backend,
            init_method=f"file://{store}",
            rank=self._rank,
            world_size=int(os.environ["WORLD_SIZE"]),
        )

    def about(self) -> dict[str, Any]:
        """What runs here."""
        on_gpu = self._device.type == "cuda"
        return {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
            "threads": torch.get_num_threads(),
        }

    def build(self, model: str, bucket_mb: int, images: int, edge: int) -> dict[str, Any]:
        """Make a model, the same on every rank, and a batch of this rank's own."""
        torch.manual_seed(1)
        with self._device:  # a GPU draws random parameters faster than a core
            made = MODELS[model]()
        ids = [self._rank] if self._device.type == "cuda" else None
        self._wrapped = DistributedDataParallel(made, device_ids=ids, bucket_cap_mb=bucket_mb)
        parameters = self._wrapped.parameters()
        self._optimizer = torch.optim.SGD(parameters, lr=0.001, momentum=0.9)
        draw = torch.Generator().manual_seed(1000 + self._rank)
        shape = (images, 3, edge, edge)
        self._inputs = torch.randn(shape, generator=draw).to(self._device)
        self._targets = torch.randint(CLASSES, (images,), generator=draw).to(self._device)
        return {"parameters": sum(one.numel() for one in made.parameters())}

    def steps(self, count: int, *, counted: bool = False) -> dict[str, Any]:
        """Train; how long that took, or, if `counted`, how many messages of which size were sent.

        PyTorch's profiler counts them, for the backend `sennit` alone. It slows training down, so
        such steps have no time.
        """
        dist.barrier()
        if counted and self._has_messages:
            cpu = [torch.profiler.ProfilerActivity.CPU]
            with torch.profiler.profile(activities=cpu, record_shapes=True) as profiler:
                loss = self._train(count)
            return {"loss": loss.item(), "messages": messages(profiler)}
        since = self._now()
        loss = self._train(count)
        elapsed = self._now() - since
        return {"elapsed_s": elapsed, "loss": loss.item(), "messages": {}}

    def _train(self, count: int) -> torch.Tensor:
        for _ in range(count):
            loss = self._step()
        return loss

    def drop(self) -> dict[str, Any]:
        """Free the model; the sum of the bits of its parameters, equal on all ranks.

        Also the bytes of DDP's buckets, empty where this PyTorch does not report them.
        """
        bits = [one.detach().view(torch.int32).sum() for one in self._wrapped.parameters()]
        checksum = torch.stack(bits).sum().item()
        buckets = self._wrapped._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
        del self._wrapped, self._optimizer, self._inputs, self._targets
        gc.collect()  # a model of DDP has cycles
        return {"checksum": checksum, "buckets": [int(size) for size in buckets.split(",") if size]}

    def _step(self) -> torch.Tensor:
        self._optimizer.zero_grad()
        half = torch.autocast(self._device.type, torch.bfloat16)
        with half if self._compute == "bfloat16" else contextlib.nullcontext():
            outputs = self._wrapped(self._inputs)
            loss: torch.Tensor = nn.functional.cross_entropy(outputs, self._targets)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def main() -> None:
    """Follow orders until there are no more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("sennit", "gloo", "nccl"), required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--compute", choices=("float32", "bfloat16"), required=True)
    arguments = parser.parse_args()
    rank = Rank(arguments.backend, arguments.store, arguments.compute)
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(rank, order.pop("do"))(**order)
        print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
