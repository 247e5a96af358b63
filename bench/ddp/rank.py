"""One rank of the training benchmark: it takes orders from standard input and answers each.

    rank.py --backend sennit|gloo|nccl --store FILE --compute float32|bfloat16

RANK and WORLD_SIZE are in the environment. Orders and answers are JSON objects, one a line:

    {"do": "about"}                                              what runs here
    {"do": "build", "model", "bucket_mb", "images", "edge"}      a model, wrapped in DDP
    {"do": "steps", "count"}                                     trains it, on one batch
    {"do": "drop"}                                               what has become of it

Between orders nothing runs, so that another job can have the device then.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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


def register_counted() -> Sizes:
    """Register the backend `counted`: that of Sennit, with what it is asked for by bytes."""
    from sennit.torch.process_group import ProcessGroup

    sizes: Sizes = {"all_reduce": Counter(), "broadcast": Counter()}

    class CountedGroup(ProcessGroup):
        """Writes down the size of each message before it passes it on."""

        def allreduce(self, tensors: Any, opts: Any = None) -> Any:  # PyTorch's name of it
            """Count, and combine."""
            sizes["all_reduce"].update(tensor.nbytes for tensor in tensors)
            return super().allreduce(tensors, opts)

        def broadcast(self, tensors: Any, opts: Any = None, root: int | None = None) -> Any:
            """Count, and overwrite."""
            sizes["broadcast"].update(tensor.nbytes for tensor in tensors)
            return super().broadcast(tensors, opts, root)

    dist.Backend.register_backend("counted", CountedGroup, devices=["cpu"])
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
        self._sizes: Sizes = register_counted() if backend == "sennit" else {}
        dist.init_process_group(
            "counted" if backend == "sennit" else backend,
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

    def steps(self, count: int) -> dict[str, Any]:
        """Train; how long that took, and how many messages of which size it has sent."""
        for sizes in self._sizes.values():
            sizes.clear()
        dist.barrier()
        since = self._now()
        for _ in range(count):
            loss = self._step()
        elapsed = self._now() - since
        return {"elapsed_s": elapsed, "loss": loss.item(), "messages": self._sizes}

    def drop(self) -> dict[str, Any]:
        """Free the model; the sum of the bits of its parameters, which all ranks have alike.

        Also the bytes of DDP's buckets, empty where this PyTorch does not tell them.
        """
        bits = [one.detach().view(torch.int32).sum() for one in self._wrapped.parameters()]
        checksum = torch.stack(bits).sum().item()
        buckets = self._wrapped._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
        del self._wrapped, self._optimizer, self._inputs, self._targets
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
