"""How long an all_reduce of torch.distributed takes between CPU ranks, by its backends.

    python3 bench/torch_calls.py [--ranks 2] [--bytes 8] [--json FILE]

All backends in turns in the same processes, batch by batch, so that a busy machine is busy for all
of them. A row has the fastest and the median batch of the slowest rank, in us a call.
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
from typing import Any

import sennit
from sennit.cli.bench_document import document

BATCHES = 40
CALLS = 250
BACKENDS = ("sennit", "gloo")


def rank(comm: sennit.Communicator, store: str, bytes_: int) -> dict[str, list[float]]:
    """The batches of one rank, by backend."""
    import torch
    import torch.distributed as dist

    importlib.import_module("sennit.torch")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=comm.rank, world_size=comm.size
    )
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    x = torch.zeros(bytes_ // 4)
    found: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    for batch in range(BATCHES + 1):
        for backend, group in groups.items():
            comm.barrier()
            begin = time.perf_counter()
            for _ in range(CALLS):
                dist.all_reduce(x, group=group)
            spent = time.perf_counter() - begin
            if batch > 0:
                found[backend].append(spent / CALLS * 1e6)
    dist.destroy_process_group()
    return found


def rows(ranks: int, bytes_: int, times: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The rows of the run, as bench/results/README.md says."""
    call = {"collective": "all_reduce", "executor": "host", "ranks": ranks, "dtype": "float32"}
    return [
        call
        | {"op": "sum", "bytes": bytes_, "caller": f"torch.distributed, {backend}"}
        | {"call_us": {"min": round(min(batches), 2), "p50": round(median(batches), 2)}}
        for backend, batches in times.items()
    ]


def main() -> None:
    """Measures, and prints the slowest rank."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        of_ranks = sennit.spawn(rank, options.ranks, f"{folder}/store", options.bytes)
    times = {
        backend: [max(batch) for batch in zip(*(one[backend] for one in of_ranks), strict=True)]
        for backend in BACKENDS
    }
    for backend, batches in times.items():
        print(f"{backend:14} {min(batches):8.2f} ({median(batches):.2f})")
    if options.json:
        program = {
            "program": f"bench/torch_calls.py, PyTorch {importlib.metadata.version('torch')}"
        }
        found = program | document(rows(options.ranks, options.bytes, times))
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
