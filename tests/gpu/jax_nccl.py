"""Collectives of JAX over the library that is preloaded: one process, a thread for each GPU.

LD_PRELOAD=LIB python3 tests/gpu/jax_nccl.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS = "ranks"
PART = 4096


def collectives(ranks: int) -> dict[str, Callable[[Any], Any]]:
    """What each rank does with its part, by name."""
    ring = [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    return {
        "psum": partial(jax.lax.psum, axis_name=AXIS),
        "pmax": partial(jax.lax.pmax, axis_name=AXIS),
        "all_gather": partial(jax.lax.all_gather, axis_name=AXIS, tiled=True),
        "psum_scatter": partial(jax.lax.psum_scatter, axis_name=AXIS, tiled=True),
        "all_to_all": partial(
            jax.lax.all_to_all, axis_name=AXIS, split_axis=0, concat_axis=0, tiled=True
        ),
        "ppermute": partial(jax.lax.ppermute, axis_name=AXIS, perm=ring),
    }


def expected(name: str, parts: np.ndarray) -> np.ndarray:
    """What all ranks hold in the end, one after the other; `parts` has a row for each rank."""
    ranks = len(parts)
    blocks = parts.reshape(ranks, ranks, -1)
    results: dict[str, np.ndarray] = {
        "psum": np.tile(parts.sum(axis=0), ranks),
        "pmax": np.tile(parts.max(axis=0), ranks),
        "all_gather": np.tile(parts.ravel(), ranks),
        "psum_scatter": parts.sum(axis=0),
        "all_to_all": blocks.transpose(1, 0, 2).ravel(),
        "ppermute": np.roll(parts, 1, axis=0).ravel(),
    }
    return results[name]


def main() -> None:
    """Runs each; a wrong number ends the program."""
    ranks = len(jax.devices())
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    parts = np.arange(ranks * PART, dtype=np.float32).reshape(ranks, PART) % 97
    spec = PartitionSpec(AXIS)
    for name, collective in collectives(ranks).items():
        print(f"{name}: begins", flush=True)
        run = jax.jit(
            jax.shard_map(collective, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        )
        for _ in range(3):
            found = np.asarray(run(parts.ravel()))
        np.testing.assert_array_equal(found, expected(name, parts), err_msg=name)
        print(f"{name}: passed", flush=True)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    print("libraries:", sorted({line.split()[-1] for line in maps if "libnccl.so" in line}))


if __name__ == "__main__":
    main()
