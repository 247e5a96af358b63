"""How long steps of programs of PyTorch take on CPU ranks, by the backend of torch.distributed.

    python3 bench/torch_programs.py [--json FILE]

Two ranks, each with one thread: a pipeline of two stages that starts all sends of 8 microbatches
before it waits for one (GPipe), with messages of 32 KB to 8 MB, and DistributedDataParallel with 24
MB of gradients. Both backends in turns in the same processes, step by step. A row has the fastest
and the median step, in ms, as rank 0 sees them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import sennit
from sennit.cli.bench_document import document

if TYPE_CHECKING:
    from collections.abc import Callable

RANKS = 2
STEPS = 31
MICROBATCHES = 8
WIDTH = 256
BACKENDS = ("sennit", "gloo")
PIPELINES = {f"GPipe, {size >> 10} KB": size for size in (32 << 10, 256 << 10, 2 << 20, 8 << 20)}
DDP = "DDP, 24 MB"


def pipeline(rank: int, group: Any, message_bytes: int) -> Callable[[], None]:
    """A step: forward through both stages, then back."""
    import torch
    import torch.distributed as dist

    weights = torch.randn(WIDTH, WIDTH) / WIDTH
    shape = (message_bytes // 4 // WIDTH, WIDTH)
    inputs = [torch.randn(shape) for _ in range(MICROBATCHES)]
    received = [torch.empty(shape) for _ in range(MICROBATCHES)]

    def computed(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x @ weights) @ weights)

    def send_all(tensors: list[torch.Tensor]) -> None:
        results, works = [], []
        for x in tensors:
            results.append(computed(x))
            works.append(dist.isend(results[-1], 1 - rank, group=group))
        for work in works:
            work.wait()

    def recv_all() -> list[torch.Tensor]:
        results = []
        works = [dist.irecv(x, 1 - rank, group=group) for x in received]
        for work, x in zip(works, received, strict=True):
            work.wait()
            results.append(computed(x))
        return results

    def step() -> None:
        if rank == 0:
            send_all(inputs)
            recv_all()
        else:
            send_all(recv_all())

    return step


def data_parallel(group: Any) -> Callable[[], None]:
    """A step of training."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    layers = [torch.nn.Linear(1024, 1024, bias=False) for _ in range(6)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group)
    inputs = torch.randn(16, 1024)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(inputs).sum().backward()

    return step


def rank(comm: sennit.Communicator, store: str) -> dict[str, dict[str, list[float]]]:
    """The steps of one rank in ms, by program and backend."""
    import torch
    import torch.distributed as dist

    importlib.import_module("sennit.torch")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=comm.rank, world_size=comm.size
    )
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    found: dict[str, dict[str, list[float]]] = {}
    for program in (*PIPELINES, DDP):
        steps = {
            backend: data_parallel(group)
            if program == DDP
            else pipeline(comm.rank, group, PIPELINES[program])
            for backend, group in groups.items()
        }
        times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        for index in range(STEPS + 2):
            for backend, step in steps.items():
                comm.barrier()
                begin = time.perf_counter()
                step()
                comm.barrier()
                if index >= 2:
                    times[backend].append((time.perf_counter() - begin) * 1e3)
        found[program] = times
    dist.destroy_process_group()
    return found


def rows(found: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    """A row for each program; `ratio` is the rival's median by Sennit's."""
    return [
        {"program": program, "ranks": RANKS, "executor": "host", "samples": STEPS}
        | {f"{backend}_ms": {"min": min(t), "p50": median(t)} for backend, t in times.items()}
        | {"ratio": median(times["gloo"]) / median(times["sennit"])}
        for program, times in found.items()
    ]


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = sennit.spawn(rank, RANKS, f"{folder}/store")[0]
    results = rows(found)
    for row in results:
        print(
            f"{row['program']:15} {row['sennit_ms']['p50']:8.2f} ms, "
            f"Gloo {row['ratio']:.2f} times as long"
        )
    if arguments.json:
        whole = document(results)
        whole["versions"] = {"torch": importlib.metadata.version("torch")}
        arguments.json.write_text(json.dumps(whole) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
