"""The rows of GPU ranks in result files, from what sennit-compare prints.

Uses nothing of this package, so that bench/gpu/collect.py can take it where no package is built.
"""

from __future__ import annotations

from typing import Any

MODES = ("nccl", "nccl windows")
"""NCCL as it comes, and on symmetric windows."""
STAGED = "staged"
"""Copies through host memory, to which ranks that share GPUs are compared."""
HOP_US = 0.70
"""A word from one H200 to another over NVLink, until who waits for it has it."""
WIRE_GBPS = 390.0
"""What copy engines reach between two of them, the most of all that was tried."""
# SMs that ours takes. Where ranks share GPUs: how many there are, and whether under CUDA's
# Multi-Process Service. Of send_recv between two ranks, or of several messages at once; what
# kernels may have; and what the calls requested.
_ONLY_WHERE_SAID = (
    *("sm_count", "gpus", "mps", "pair", "bidirectional", "window", "sm_budget"),
    *("algorithm", "paths", "protocol", "codec"),
)


def row(measured: dict[str, Any]) -> dict[str, Any]:
    """A row as all result files have it."""
    times = measured["time_us"]
    known = (*MODES, STAGED)
    rivals = [
        {"name": name, "p50_us": times[name]["p50"]}
        | ({"host_p50_us": times[name]["host_p50"]} if "host_p50" in times[name] else {})
        for name in known
        if name in times
    ]
    algbw = measured["bytes"] * measured.get("window", 1) / times["sennit"]["p50"] / 1e3
    # No wire lies between ranks that share a GPU.
    floor_hops, floor_bytes = (None, None) if "gpus" in measured else floors_us(measured)
    return {
        "collective": measured["collective"],
        "executor": "cuda",
        "ranks": measured["ranks"],
        "dtype": "float32",
        "op": "sum",
        "bytes": measured["bytes"],
        "mode": measured["mode"],
        "in_place": False,
        # Whether Sennit worked on registered memory of ncclMemAlloc; older rows did not.
        "registered": measured.get("registered", False),
        "samples": measured["samples"],
        "calls_per_sample": measured["calls_per_sample"],
        "time_us": times["sennit"],
        "algbw_GBps": algbw,
        "busbw_GBps": algbw * _bus_factor(measured["collective"], measured["ranks"]),
        "floor_hops_us": floor_hops,
        "floor_bytes_us": floor_bytes,
        "wrong": measured["wrong"],
        "rivals": rivals,
        "engines": {name: times[name] for name in times if name not in ("sennit", *known)},
        "rival": min(rivals, key=lambda rival: rival["p50_us"]),
        "ratio": measured["ratio"],
        # Of rows with a codec: the rival's results are what was expected.
        **({"error": {"rms": measured["error"]}} if "error" in measured else {}),
    } | {key: measured[key] for key in _ONLY_WHERE_SAID if key in measured}


def load_row(measured: dict[str, Any]) -> dict[str, Any]:
    """A row of calls together with a load, with the times of NCCL in fields of its own."""
    return {**measured, "executor": "cuda", "dtype": "float32", "op": "sum", "rivals": []}


def floors_us(row: dict[str, Any]) -> tuple[float, float]:
    """What no call can be faster than over NVLink alone, by hops and by bytes.

    Every collective has an algorithm of one hop: all that a rank needs comes straight from where it
    is. The bytes are those that the busiest wire carries, in one direction, in the best algorithm
    without multicast.
    """
    parts = row["bytes"] * row.get("window", 1) * _bus_factor(row["collective"], row["ranks"])
    return HOP_US, parts / WIRE_GBPS / 1e3


def floor_text(row: dict[str, Any], digits: int) -> str:
    """The larger floor of a row, for tables."""
    if row["floor_hops_us"] is None:
        return "-"
    return f"{max(row['floor_hops_us'], row['floor_bytes_us']):.{digits}f}"


def _bus_factor(collective: str, ranks: int) -> float:
    """What of the buffer crosses the busiest wire, as nccl-tests counts."""
    others = (ranks - 1) / ranks
    if collective == "all_reduce":
        return 2 * others
    return others if collective in ("all_gather", "reduce_scatter", "all_to_all") else 1.0
