"""Options of calls, that ranks of tests ask of groups and in blocks."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import sennit
import torch
import torch.distributed as dist
from sennit import schedules
from sennit.torch import CallOptions, Options, call_options
from torch_ranks import join


def log_to(rank: int, file: str) -> Path:
    """Makes the library log from now on; where. The first call has to come later."""
    log = Path(f"{file}.log.{rank}")
    os.environ |= {"SENNIT_DEBUG": "INFO", "SENNIT_DEBUG_FILE": str(log)}
    return log


def plans(log: Path) -> list[str]:
    """Collective and algorithm of the plans that were made, by the log."""
    found = re.findall(r"plan: (\w+) of \d+ bytes: (\S+) by (\w+)", log.read_text())
    return [" ".join(words) for words in found]


def total(ranks: int, group: Any = None, count: int = 1000) -> None:
    """An all_reduce, which must be right."""
    x = torch.full((count,), 2.0)
    dist.all_reduce(x, group=group)
    assert torch.equal(x, torch.full((count,), 2.0 * ranks))


def of_a_group(rank: int, ranks: int, file: str) -> None:
    """`pg_options` hold for the collectives that they name, others for the rest."""
    log = log_to(rank, file)
    join(rank, ranks, file)
    asked = Options(
        config=sennit.Config(paths="shm"),
        calls={"all_reduce": CallOptions(algorithm="ring", protocol="slots")},
        other_calls=CallOptions(codec="none"),
    )
    group = dist.new_group(pg_options=asked)
    total(ranks, group)
    x = torch.full((3,), float(rank))
    dist.broadcast(x, 1, group=group)
    assert x[0] == 1
    assert "all_reduce ring slots" in plans(log)
    with call_options(algorithm="recursive_doubling"):
        total(ranks, group, 500)  # the protocol stays that of the group
    assert "all_reduce recursive_doubling slots" in plans(log)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), process_group=group)
    model(torch.ones(1, 2)).sum().backward()
    dist.destroy_process_group()


def of_a_block(rank: int, ranks: int, file: str) -> None:
    """A block holds for the calls of its thread, an inner one goes before the outer one."""
    log = log_to(rank, file)
    join(rank, ranks, file)
    with call_options(algorithm="ring"):
        total(ranks, count=1111)
        with call_options(algorithm="two_shot", codec="none") as inner:
            assert inner == CallOptions(algorithm="two_shot", codec="none")
            total(ranks, count=2222)
        total(ranks, count=1112)
        other = threading.Thread(target=total, args=(ranks,), kwargs={"count": 7})
        other.start()
        other.join()
    free = log.read_text().partition("all_reduce of 28 bytes: ")[2].split()[0]
    assert free not in ("", "ring")  # small ones take fewer rounds
    made = plans(log)
    assert "all_reduce ring" in [plan.rsplit(" ", 1)[0] for plan in made]
    assert "all_reduce two_shot" in [plan.rsplit(" ", 1)[0] for plan in made]
    with pytest.raises(ZeroDivisionError), call_options(algorithm="ring"):
        raise ZeroDivisionError
    total(ranks, count=8)
    work = None
    with call_options(codec="q8"):
        x = torch.linspace(-1, 1, 50_000) * (rank + 1)
        plain = x.clone()
        work = dist.all_reduce(x, async_op=True)
    work.wait()
    dist.all_reduce(plain)
    assert not torch.equal(plain, x)
    torch.testing.assert_close(plain, x, rtol=0, atol=0.1)
    with call_options(reproducible=True, path="shm", tile_bytes=4096):
        total(ranks, count=30_000)
    dist.destroy_process_group()


def a_schedule(rank: int, ranks: int, file: str) -> None:
    """A schedule of one's own runs in a block, and for the calls of a group."""
    log = log_to(rank, file)
    join(rank, ranks, file)
    own = schedules.known("all_reduce", "ring", ranks)
    with call_options(schedule=own):
        total(ranks)
    group = dist.new_group(pg_options=Options(calls={"all_reduce": CallOptions(schedule=own)}))
    total(ranks, group)
    assert own.name in log.read_text()
    with (
        pytest.raises(sennit.InvalidArgument, match="all_reduce"),
        call_options(schedule=own),
    ):
        dist.broadcast(torch.ones(2), 0)
    dist.destroy_process_group()


def wrong_names(rank: int, ranks: int, file: str) -> None:
    """What the library has not is an error of the call, and the group works on."""
    join(rank, ranks, file)
    for options, text in (
        ({"protocol": "quick"}, "'quick'"),
        ({"path": "carrier"}, "'carrier'"),
        ({"codec": "q7"}, "q7"),
        ({"algorithm": "bruck"}, "bruck"),  # there is one, but of all_gather
    ):
        with pytest.raises(sennit.Error, match=text) as error, call_options(**options):
            total(ranks)
        assert isinstance(error.value, RuntimeError)
        assert isinstance(error.value, dist.DistError)
    total(ranks)
    dist.destroy_process_group()


def sparse_tensors(rank: int, ranks: int, file: str) -> None:
    """The steps of a reduction of sparse tensors take none of the options."""
    join(rank, ranks, file)
    group = dist.new_group(
        pg_options=Options(calls={"all_reduce": CallOptions(algorithm="recursive_doubling")})
    )
    x = torch.sparse_coo_tensor([[rank]], [1.0], (ranks,))
    with call_options(algorithm="halving_doubling"):
        dist.all_reduce(x, group=group)
    assert torch.equal(x.to_dense(), torch.ones(ranks))
    dist.destroy_process_group()
