"""One rank of the benchmark of programs: it takes orders from standard input and answers each.

    program_rank.py --backend sennit|gloo|nccl --store FILE --device cuda|cpu --gpus N [--way WAY]

RANK and WORLD_SIZE are in the environment. Orders and answers are JSON objects, one a line:

    {"do": "about"}             what runs here
    {"do": "build", "program"}  a program
    {"do": "steps", "count"}    runs it
    {"do": "profile"}           one step, with the profiler: how long kernels of whom ran
    {"do": "drop"}              frees it

Between orders nothing runs, so that another job can have the device then.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
import workloads

Span = tuple[int, int]


def is_of_communication(name: str) -> bool:
    """Of a kernel or a copy on the GPU, as the profiler names it."""
    return any(part in name for part in ("nccl", "sennit", "PtoP"))


def covered_ns(spans: list[Span]) -> int:
    """How long at least one of them lasted."""
    total, end = 0, 0
    for begin, until in sorted(spans):
        total += max(0, until - max(begin, end))
        end = max(end, until)
    return total


class Rank:
    """A process of the job."""

    def __init__(self, backend: str, store: str, device: str, gpus: int, way: str) -> None:
        """Join the others, which share so many GPUs."""
        rank = int(os.environ["RANK"])
        self._device = torch.device("cpu")
        if device == "cuda":
            self._device = torch.device("cuda", rank % gpus)
            torch.cuda.set_device(self._device)
        self._way = way
        if backend == "sennit":
            importlib.import_module("sennit.torch")
        ranks = int(os.environ["WORLD_SIZE"])
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks)

    def about(self) -> dict[str, Any]:
        """What runs here."""
        on_gpu = self._device.type == "cuda"
        return {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())) if on_gpu else None,
        }

    def build(self, program: str) -> dict[str, Any]:
        """Make a program."""
        self._step = workloads.made(program, self._device, self._way)
        return {}

    def steps(self, count: int) -> dict[str, Any]:
        """Run it; how long that took, and what it returned."""
        dist.barrier()
        since = self._now()
        result = workloads.numbers(self._step, count)
        return {"elapsed_s": self._now() - since, "result": result}

    def profile(self) -> dict[str, Any]:
        """Of one step on a GPU: all of it, its communication, and when no other kernel ran.

        Waits of streams are in none of them, but in the whole.
        """
        if self._device.type != "cuda":
            return {}
        dist.barrier()
        self._now()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            workloads.numbers(self._step, 1)
            self._now()
        ours: list[Span] = []
        others: list[Span] = []
        for event in profiler.profiler.kineto_results.events():
            if event.device_type() != torch.autograd.DeviceType.CUDA:
                continue
            begin = event.start_ns()
            spans = ours if is_of_communication(event.name()) else others
            spans.append((begin, begin + event.duration_ns()))
        every = ours + others
        if not every:
            return {}
        whole = max(end for _, end in every) - min(begin for begin, _ in every)
        return {
            "step_ms": whole / 1e6,
            "communication_ms": covered_ns(ours) / 1e6,
            "without_computation_ms": (whole - covered_ns(others)) / 1e6,
        }

    def drop(self) -> dict[str, Any]:
        """Free the program."""
        del self._step
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        return {}

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def main() -> None:
    """Follow orders until there are no more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", choices=("sennit", "gloo", "nccl"), required=True)
    parser.add_argument("--store", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--way", choices=workloads.WAYS, default="three calls", help="of decode")
    arguments = parser.parse_args()
    rank = Rank(arguments.backend, arguments.store, arguments.device, arguments.gpus, arguments.way)
    for line in sys.stdin:
        order = json.loads(line)
        answer = getattr(rank, order.pop("do"))(**order)
        print(json.dumps(answer), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
