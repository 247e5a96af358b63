"""Programs that shard models and pass them through pipelines, next to Gloo or to one process."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch_ranks import join

WIDTH = 24
STEPS = 4


def network(layers: int) -> torch.nn.Sequential:
    """The same parameters on each rank; widths that no number of ranks here divides."""
    torch.manual_seed(3)
    linear = torch.nn.Linear
    return torch.nn.Sequential(
        *(
            torch.nn.Sequential(linear(WIDTH, 31), torch.nn.Tanh(), linear(31, WIDTH))
            for _ in range(layers)
        )
    )


def trained(model: Any, batches: list[torch.Tensor]) -> list[torch.Tensor]:
    """The parameters, whole, after a step of Adam for each batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach() for p in model.parameters()]


def batches_of(rank: int) -> list[torch.Tensor]:
    """The data of a rank."""
    data = torch.Generator().manual_seed(rank)
    return [torch.randn(8, WIDTH, generator=data) for _ in range(STEPS)]


def sharded(rank: int, ranks: int, file: str) -> None:
    """FSDP2 comes to the parameters of one process that has the batches of all ranks."""
    join(rank, ranks, file)
    whole = trained(
        network(3), [torch.cat(step) for step in zip(*map(batches_of, range(ranks)), strict=True)]
    )
    for reshard in (True, False):
        model = network(3)
        for layer in model:
            fully_shard(layer, reshard_after_forward=reshard)
        fully_shard(model)
        for ours, right in zip(trained(model, batches_of(rank)), whole, strict=True):
            torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)
    mixed = network(2)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in mixed:
        fully_shard(layer, mp_policy=policy)
    fully_shard(mixed, mp_policy=policy)
    loss = mixed(batches_of(rank)[0]).float().square().mean()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(mixed.parameters(), 0.5)
    assert torch.isfinite(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    dist.destroy_process_group()


def sharded_in_two_dimensions(rank: int, ranks: int, file: str) -> None:
    """Tensor parallel layers within pairs of ranks, FSDP2 between the pairs."""
    join(rank, ranks, file)
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(3)
    layers = [torch.nn.Linear(WIDTH, 32), torch.nn.ReLU(), torch.nn.Linear(32, WIDTH)]
    model: Any = torch.nn.Sequential(*layers)
    alone = copy.deepcopy(model)
    parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(model, mesh=mesh["data"])
    pairs = range(ranks // 2)
    right = trained(alone, [torch.cat(step) for step in zip(*map(batches_of, pairs), strict=True)])
    ours = trained(model, batches_of(rank // 2))
    for got, expected in zip(ours, right, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    dist.destroy_process_group()


def pipelined(rank: int, ranks: int, file: str) -> None:
    """Three schedules of pipelines give the losses and gradients of one process."""
    join(rank, ranks, file)
    batch, target = torch.randn(2, 16, WIDTH, generator=torch.Generator().manual_seed(1))

    def loss_of(output: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return (output - wanted).square().mean()

    for schedule, stages_a_rank in (
        (ScheduleGPipe, 1),
        (Schedule1F1B, 1),
        (ScheduleInterleaved1F1B, 2),
    ):
        alone = network(ranks * stages_a_rank)
        parts = copy.deepcopy(alone)
        right = loss_of(alone(batch), target)
        right.backward()
        own = range(rank, len(parts), ranks)
        stages = [PipelineStage(parts[i], i, len(parts), torch.device("cpu")) for i in own]
        runner: Any = schedule(
            stages if stages_a_rank > 1 else stages[0], n_microbatches=4, loss_fn=loss_of
        )
        losses: list[torch.Tensor] = []
        runner.step(
            *([batch] if rank == 0 else []),
            **({"target": target, "losses": losses} if rank == ranks - 1 else {}),
        )
        if rank == ranks - 1:
            assert torch.stack(losses).mean().item() == pytest.approx(right.item(), rel=1e-5)
        for i in own:
            for ours, expected in zip(parts[i].parameters(), alone[i].parameters(), strict=True):
                torch.testing.assert_close(ours.grad, expected.grad, rtol=1e-4, atol=1e-6)
    dist.destroy_process_group()
