"""CuPy's binding of NCCL over the library that is preloaded: one thread drives all GPUs.

LD_PRELOAD=LIB python3 tests/gpu/cupy_nccl.py
"""

from __future__ import annotations

from pathlib import Path

import cupy
from cupy.cuda import nccl

COUNT = 1 << 20


def filled(ranks: int) -> list[cupy.ndarray]:
    """An array on each device, with the number of its rank."""
    arrays = []
    for rank in range(ranks):
        with cupy.cuda.Device(rank):
            arrays.append(cupy.full(COUNT, rank, dtype=cupy.float32))
    return arrays


def main() -> None:
    """Sums, broadcasts and exchanges; a wrong number ends the program."""
    ranks = cupy.cuda.runtime.getDeviceCount()
    comms = nccl.NcclCommunicator.initAll(list(range(ranks)))
    streams = []
    for rank, comm in enumerate(comms):
        assert (comm.rank_id(), comm.size(), comm.device_id()) == (rank, ranks, rank)
        with cupy.cuda.Device(rank):
            streams.append(cupy.cuda.Stream())

    def group(call) -> None:  # type: ignore[no-untyped-def]
        nccl.groupStart()
        for rank, comm in enumerate(comms):
            with cupy.cuda.Device(rank):
                call(rank, comm, streams[rank].ptr)
        nccl.groupEnd()
        for stream in streams:
            stream.synchronize()

    sent, received = filled(ranks), filled(ranks)
    for rank in range(ranks):
        cupy.cuda.Device(rank).synchronize()

    def check(what: str, expected: list[int]) -> None:
        for rank, array in enumerate(received):
            with cupy.cuda.Device(rank):
                assert bool((array == expected[rank]).all()), f"{what}, rank {rank}: {array[:4]}"
        print(f"{what}: passed")

    def all_reduce(rank, comm, stream) -> None:  # type: ignore[no-untyped-def]
        comm.allReduce(
            sent[rank].data.ptr,
            received[rank].data.ptr,
            COUNT,
            nccl.NCCL_FLOAT32,
            nccl.NCCL_SUM,
            stream,
        )

    def broadcast(rank, comm, stream) -> None:  # type: ignore[no-untyped-def]
        comm.broadcast(
            sent[rank].data.ptr, received[rank].data.ptr, COUNT, nccl.NCCL_FLOAT32, 1, stream
        )

    def ring(rank, comm, stream) -> None:  # type: ignore[no-untyped-def]
        comm.send(sent[rank].data.ptr, COUNT, nccl.NCCL_FLOAT32, (rank + 1) % ranks, stream)
        comm.recv(received[rank].data.ptr, COUNT, nccl.NCCL_FLOAT32, (rank - 1) % ranks, stream)

    group(all_reduce)
    check("all_reduce", [ranks * (ranks - 1) // 2] * ranks)
    group(broadcast)
    check("broadcast", [1] * ranks)
    group(ring)
    check("send and recv", [(rank - 1) % ranks for rank in range(ranks)])
    for comm in comms:
        comm.destroy()
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    print("libraries:", sorted({line.split()[-1] for line in maps if "libnccl.so" in line}))


if __name__ == "__main__":
    main()
