"""How the ranks of a group meet: rank 0 says in the store of PyTorch under which key."""

from __future__ import annotations

import datetime
import secrets
import time
from typing import TYPE_CHECKING, Any

from sennit import Config, JoinTimeout, _core

if TYPE_CHECKING:
    import torch.distributed as dist

_KEY = "sennit"


def join(
    store: dist.Store,
    rank: int,
    size: int,
    timeout: datetime.timedelta,
    device: str = "host",
    settings: Config | None = None,
) -> _core.Comm:
    """Join the ranks that have the same store, as host ranks or with the GPU `device`.

    `settings` are the same on all ranks.

    A store may hold the key of an earlier group or attempt, since programs make groups of one store
    again and torchrun keeps its store when it restarts the ranks. Rank 0 overwrites it. The others
    ask again while they join, and begin anew when the key is another.

    Raises:
        JoinTimeout: They did not all come in time.
    """
    deadline = time.monotonic() + timeout.total_seconds()
    settings = settings or Config()
    key = secrets.token_hex(16)
    place = _KEY if device == "host" else f"{_KEY}-gpus"
    if rank == 0:
        store.set(place, key)
    while True:
        if rank != 0:
            key = _key_of_rank_0(store, place, size, rank, deadline, timeout)
        # What is left, and never zero, which would be the default.
        left_s = max(deadline - time.monotonic(), 0.001)
        config = settings.core(f"torch.{key[:6]}", left_s, timeout.total_seconds(), device)

        def is_outdated(key: str = key) -> bool:
            return bool(store.get(place).decode() != key)

        handle = _core.init_rank(rank, size, key, config, None if rank == 0 else is_outdated)
        if handle is not None:
            return handle


def _key_of_rank_0(
    store: dist.Store,
    place: str,
    size: int,
    rank: int,
    deadline: float,
    timeout: datetime.timedelta,
) -> str:
    left = datetime.timedelta(seconds=max(deadline - time.monotonic(), 0.001))
    try:
        store.wait([place], left)
    except RuntimeError as error:  # DistStoreError of some stores
        if time.monotonic() < deadline:
            raise
        raise _timeout(rank, size, timeout) from error
    key: Any = store.get(place)
    return str(key.decode())


def _timeout(rank: int, size: int, timeout: datetime.timedelta) -> JoinTimeout:
    seconds = timeout.total_seconds()
    evidence = "rank 0 has put no key into the store"
    error = JoinTimeout(
        f"rank {rank} of {size} could not join within {seconds:g} s: {evidence}. Next: see whether "
        "rank 0 makes the group, or give a longer timeout"
    )
    error.blamed_ranks = (0,)
    error.rank = rank
    error.size = size
    error.evidence = evidence
    error.elapsed_s = seconds
    return error
