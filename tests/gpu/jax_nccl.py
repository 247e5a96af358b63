"""Collectives of JAX over the library that is preloaded: one process, a thread for each GPU.

LD_PRELOAD=LIB python3 tests/gpu/jax_nccl.py [NAME]...

NAMEs are psum, pmax, all_gather, psum_scatter, all_to_all and ppermute: all if none is said. The
last line says what calls of NCCL they are made of, for bench/gpu/preloaded.py to compare.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Each run makes its calls anew: in a graph they would be made once and replayed.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS = "ranks"
PART = 1 << 22  # 16 MiB: small ones XLA may reduce by kernels of its own
RUNS = 3


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


def calls_of(name: str, ranks: int) -> list[tuple[int, int]]:
    """The calls and elements of one run on one GPU, in each of the ways that XLA has."""
    whole, block = PART, PART // ranks
    return {
        "psum": [(1, whole)],
        "pmax": [(1, whole)],
        "all_gather": [(1, whole)],
        "psum_scatter": [(1, block)],
        "all_to_all": [(1, block), (2 * ranks, 2 * whole)],  # or messages, also to itself
        "ppermute": [(2, 2 * whole)],
    }[name]


def made(names: list[str], ranks: int) -> str:
    """Calls and bytes of all runs on all GPUs, one way after the other."""
    times = RUNS * ranks
    ways = [
        (times * sum(calls for calls, _ in way), times * sum(4 * count for _, count in way))
        for way in itertools.product(*(calls_of(name, ranks) for name in names))
    ]
    return " or ".join(f"{calls} calls of {bytes_} bytes" for calls, bytes_ in ways)


def main() -> None:
    """Runs each; a wrong number ends the program."""
    ranks = len(jax.devices())
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    parts = (np.arange(ranks * PART).reshape(ranks, PART) % 97).astype(np.float32)
    spec = PartitionSpec(AXIS)
    names = sys.argv[1:] or list(collectives(ranks))
    for name in names:
        collective = collectives(ranks)[name]
        print(f"{name}: begins", flush=True)
        run = jax.jit(
            jax.shard_map(collective, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        )
        for _ in range(RUNS):
            found = np.asarray(run(parts.ravel()))
        np.testing.assert_array_equal(found, expected(name, parts), err_msg=name)
        print(f"{name}: passed", flush=True)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    print("libraries:", sorted({line.split()[-1] for line in maps if "libnccl.so" in line}))
    print(f"made: {made(names, ranks)}", flush=True)


if __name__ == "__main__":
    main()
