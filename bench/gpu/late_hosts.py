"""Collectives by copy engines of ranks whose hosts are not equally fast.

    python3 bench/gpu/late_hosts.py [--mib 256] [--json FILE]

A rank a GPU. Before each all_gather the host of each rank computes for a random time, so that now
one and now another comes last; GPUs take longer than hosts. `host us`: how long a call keeps the
host, median and largest; `ms a call`: of all calls, until the GPUs have ended. In memory that is
registered as symmetric, and in other memory, in turns.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

import sennit
from python_calls import machine

ROUNDS = 9
CALLS = 40
HOST_S = 300e-6
"""The mean of what a host computes before a call; all_gathers of 256 MiB take 0.4 ms on 2 H200s."""


def compute(seconds: float) -> None:
    """Keeps the host busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def one_round(torch: Any, comm: sennit.Communicator, x: Any, out: Any) -> tuple[list[float], float]:
    """What each call takes of the host in us, and ms a call."""
    torch.cuda.synchronize()
    comm.barrier()
    torch.cuda.synchronize()
    own = random.Random(comm.rank)
    host_us = []
    begin = time.perf_counter()
    for _ in range(CALLS):
        compute(own.expovariate(1 / HOST_S))
        called = time.perf_counter()
        comm.all_gather(x, out)
        host_us.append((time.perf_counter() - called) * 1e6)
    torch.cuda.synchronize()
    return host_us, (time.perf_counter() - begin) / CALLS * 1e3


def rank(comm: sennit.Communicator, mib: int) -> dict[str, Any]:
    """One rank's times."""
    import torch

    torch.cuda.set_device(comm.device)
    part = (mib << 20) // comm.size // 4
    x = torch.full((part,), float(comm.rank), device=comm.device)
    outs = {
        name: torch.empty(part * comm.size, device=comm.device) for name in ("own", "symmetric")
    }
    kept = comm.register(outs["symmetric"], symmetric=True)
    times: dict[str, list[tuple[list[float], float]]] = {name: [] for name in outs}
    for _ in range(ROUNDS):
        for name, out in outs.items():
            times[name].append(one_round(torch, comm, x, out))
    for out in outs.values():
        assert all(out[part * r].item() == r for r in range(comm.size))
    kept.close()
    found: dict[str, Any] = {}
    for name, rounds in times.items():
        host_us = [us for calls, _ in rounds[1:] for us in calls]
        found[name] = {
            "host_us": median(host_us),
            "host_us_most": max(host_us),
            "ms_a_call": median(ms for _, ms in rounds[1:]),
        }
    return found


def main() -> None:
    """Measures on all GPUs, and prints what the ranks have measured."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = sennit.spawn(rank, torch.cuda.device_count(), options.mib, device="cuda")
    for name in found[0]:
        for at, times in enumerate(found):
            print(
                f"{name:10} rank {at}", *(f"{k} {v:.1f}" for k, v in times[name].items()), sep="  "
            )
    if options.json:
        document = {"machine": machine(), "mib": options.mib, "ranks": found}
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
