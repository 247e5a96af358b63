"""A rank of torchrun on two nodes, for test_nodes.py: training calls over the backend `sennit`."""

from __future__ import annotations

import sennit.torch  # noqa: F401  (registers the backend)
import torch
import torch.distributed as dist

ELEMENTS = 1 << 18


def main() -> None:
    """Join, call, and print what came out."""
    dist.init_process_group("sennit")
    rank, size = dist.get_rank(), dist.get_world_size()
    total = torch.full((ELEMENTS,), float(rank))
    dist.all_reduce(total)
    gathered = [torch.empty(4) for _ in range(size)]
    dist.all_gather(gathered, torch.full((4,), float(rank)))
    # A model whose gradients are averaged over all ranks of both nodes.
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1, bias=False))
    model(torch.full((1, 4), float(rank))).sum().backward()
    (weight,) = model.parameters()
    assert weight.grad is not None
    mean = (size - 1) / 2
    is_right = (
        bool((total == size * mean).all())
        and [part[0].item() for part in gathered] == list(range(size))
        and bool((weight.grad == mean).all())
    )
    dist.destroy_process_group()
    print(f"rank {rank} of {size}: {'right' if is_right else 'wrong'}", flush=True)


if __name__ == "__main__":
    main()
