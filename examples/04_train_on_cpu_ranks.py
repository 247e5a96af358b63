"""Train a small model on CPU ranks with PyTorch, by Sennit and by Gloo in turns.

python 04_train_on_cpu_ranks.py            # 2 ranks, then 4
python 04_train_on_cpu_ranks.py 8 --steps 50

Each rank has two copies of the model, one for each backend, and makes a step with one, then with
the other, on the same data. At the end the copies must hold the same parameters. Times are medians.
"""

from __future__ import annotations

import argparse
import gc
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


def train_both(groups: dict[str, dist.ProcessGroup], rank: int, steps: int) -> str:
    """Trains one copy of the model for each backend; the median times, the loss, the difference."""
    models, optimizers = {}, {}
    for backend, group in groups.items():
        models[backend] = nn.parallel.DistributedDataParallel(small_model(), process_group=group)
        optimizers[backend] = torch.optim.SGD(models[backend].parameters(), lr=0.05)
    times: dict[str, list[float]] = {backend: [] for backend in groups}
    data = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        x = torch.randn(ROWS, 64, generator=data)
        y = x[:, :8].square()
        for backend, model in models.items():
            dist.barrier()
            begin = time.perf_counter()
            optimizers[backend].zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizers[backend].step()
            times[backend].append(time.perf_counter() - begin)
    ours, theirs = (list(model.parameters()) for model in models.values())
    largest = max(float((a - b).detach().abs().max()) for a, b in zip(ours, theirs, strict=True))
    if largest > 1e-5:
        raise RuntimeError(f"the parameters differ by {largest}")
    medians = ", ".join(
        f"{backend} {statistics.median(taken) * 1e3:.2f} ms" for backend, taken in times.items()
    )
    result = f"{medians} a step; loss {loss.item():.4f}"
    return f"{result}; the parameters differ by {largest:.1e} at most"


def train(rank: int, ranks: int, steps: int, store: str) -> None:
    """What each rank does; rank 0 prints."""
    torch.set_num_threads(1)
    dist.init_process_group("sennit", init_method=f"file://{store}", rank=rank, world_size=ranks)
    groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
    result = train_both(groups, rank, steps)
    if rank == 0:
        print(f"{ranks} ranks, {steps} steps: {result}")
    # A group of Gloo that ends with its last model waits for its threads while it holds the GIL,
    # and they may need the GIL: models go first.
    gc.collect()
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
