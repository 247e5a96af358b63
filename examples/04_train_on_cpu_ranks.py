"""Train a small model on CPU ranks with PyTorch, by Sennit and by Gloo in turns.

python 04_train_on_cpu_ranks.py            # 2 ranks, then 4
python 04_train_on_cpu_ranks.py 8 --steps 50

Each rank has two copies of the model, one for each backend, and makes a step with one, then with
the other, on the same data. At the end the copies must hold the same parameters. Times are medians.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import tempfile
import time
from pathlib import Path

import sennit.torch  # noqa: F401  # registers the backend
import torch
import torch.distributed as dist
from torch import multiprocessing, nn

BACKENDS = ("sennit", "gloo")
ROWS = 64


def small_model() -> nn.Module:
    """Some 200 000 parameters, the same on every call."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 400), nn.Tanh(), nn.Linear(400, 400), nn.Linear(400, 8))


def train(rank: int, ranks: int, steps: int, store: str) -> None:
    """What each rank does; rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group("sennit", init_method=f"file://{store}", rank=rank, world_size=ranks)
    models, optimizers = {}, {}
    for backend in BACKENDS:
        group = dist.new_group(backend=backend)
        models[backend] = nn.parallel.DistributedDataParallel(small_model(), process_group=group)
        optimizers[backend] = torch.optim.SGD(models[backend].parameters(), lr=0.05)
    times: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    data = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(ROWS, 64, generator=data)
        y = x[:, :8].square()
        for backend in BACKENDS:
            dist.barrier()
            begin = time.perf_counter()
            optimizers[backend].zero_grad()
            loss = nn.functional.mse_loss(models[backend](x), y)
            loss.backward()
            optimizers[backend].step()
            times[backend].append(time.perf_counter() - begin)
    ours, theirs = (list(models[backend].parameters()) for backend in BACKENDS)
    largest = max(float((a - b).detach().abs().max()) for a, b in zip(ours, theirs, strict=True))
    if rank == 0:
        medians = ", ".join(
            f"{backend} {statistics.median(times[backend]) * 1e3:.2f} ms" for backend in BACKENDS
        )
        print(f"{ranks} ranks, {steps} steps: {medians} a step; loss {loss.item():.4f}; ", end="")
        print(f"the parameters differ by {largest:.1e} at most")
    if largest > 1e-5:
        raise RuntimeError(f"the parameters differ by {largest}")
    dist.destroy_process_group()


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for ranks in arguments.ranks:
            store = str(Path(folder) / secrets.token_hex(4))
            multiprocessing.spawn(train, (ranks, arguments.steps, store), nprocs=ranks)


if __name__ == "__main__":
    main()
