"""CuPy over the library that is preloaded: a thread for all GPUs, and a process for each.

The thread uses CuPy's binding of NCCL, the processes use cupyx.distributed.

LD_PRELOAD=LIB python3 tests/gpu/cupy_nccl.py [thread|processes]

Both if none is said. The last line says what calls of NCCL they are made of, for
bench/gpu/preloaded.py to compare.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import cupy
from cupy.cuda import nccl

COUNT = 1 << 20
PROCESSES_LIMIT_S = 90


def filled(ranks: int) -> list[cupy.ndarray]:
    """An array on each device, with the number of its rank."""
    arrays = []
    for rank in range(ranks):
        with cupy.cuda.Device(rank):
            arrays.append(cupy.full(COUNT, rank, dtype=cupy.float32))
    return arrays


def one_thread(ranks: int) -> None:
    """Sums, broadcasts and exchanges; a wrong number ends the program."""
    comms = nccl.NcclCommunicator.initAll(list(range(ranks)))
    streams = []
    for rank, comm in enumerate(comms):
        assert (comm.rank_id(), comm.size(), comm.device_id()) == (rank, ranks, rank)
        with cupy.cuda.Device(rank):
            streams.append(cupy.cuda.Stream())

    print("communicators of one thread: made", flush=True)

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
        print(f"{what}: passed", flush=True)

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


def one_process_each(ranks: int) -> None:
    """Starts the ranks of cupyx.distributed; one that fails ends the program."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = [sys.executable, __file__]
    processes = [
        subprocess.Popen([*own, str(rank), str(ranks), str(port)]) for rank in range(ranks)
    ]
    try:
        codes = [process.wait(timeout=PROCESSES_LIMIT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0] * ranks, f"exit codes {codes}"


def distributed_rank(rank: int, ranks: int, port: int) -> None:
    """What cupyx.distributed has, each with a result that is known."""
    import cupyx.distributed

    cupy.cuda.Device(rank).use()
    comm = cupyx.distributed.init_process_group(ranks, rank, host="127.0.0.1", port=port)
    ones = cupy.ones(COUNT, dtype=cupy.float32)
    table = cupy.arange(ranks, dtype=cupy.float32).reshape(ranks, 1) * cupy.ones((1, COUNT))
    table = cupy.ascontiguousarray(table.astype(cupy.float32))  # row r is full of r
    out, rows = cupy.zeros_like(ones), cupy.zeros_like(table)

    def check(what: str, found: cupy.ndarray, expected: cupy.ndarray | float) -> None:
        cupy.cuda.get_current_stream().synchronize()
        assert bool((found == expected).all()), f"{what}, rank {rank}: {found}"
        if rank == 0:
            print(f"cupyx.distributed {what}: passed", flush=True)

    comm.all_reduce(ones * rank, out)
    check("all_reduce", out, ranks * (ranks - 1) / 2)
    comm.reduce(ones * rank, out, root=ranks - 1, op="max")
    check("reduce", out if rank == ranks - 1 else ones, ranks - 1 if rank == ranks - 1 else 1)
    mine = ones * rank
    comm.broadcast(mine, root=1)
    check("broadcast", mine, 1)
    comm.reduce_scatter(table, out, COUNT)
    check("reduce_scatter", out, ranks * rank)
    comm.all_gather(ones * rank, rows, COUNT)
    check("all_gather", rows, table)
    comm.all_to_all(table, rows)
    check("all_to_all", rows, rank)
    comm.scatter(table, out, root=0)
    check("scatter", out, rank)
    comm.gather(ones * rank, rows, root=0)
    check("gather", rows if rank == 0 else table, table)
    peer = rank ^ 1
    if peer < ranks:
        comm.send_recv(ones * rank, out, peer)
        check("send_recv", out, peer)
        if rank < peer:
            comm.send(mine * 5, peer)
        else:
            comm.recv(out, peer)
            check("recv", out, 5)
    cupy.cuda.get_current_stream().synchronize()
    comm.barrier()


def calls_of(part: str, ranks: int) -> int:
    """The calls of NCCL that a part makes, each of COUNT elements."""
    if part == "thread":
        return 4 * ranks  # all_reduce, broadcast, send and recv
    paired = ranks // 2 * 2
    to_all, rooted = 2 * ranks * ranks, 2 * 2 * ranks  # sends and recvs, also to themselves
    return 5 * ranks + to_all + rooted + 2 * paired + paired


def main() -> None:
    """The parts; or one rank of cupyx.distributed, with its number, their number and the port."""
    if len(sys.argv) > 2:
        distributed_rank(*map(int, sys.argv[1:4]))
        return
    ranks = cupy.cuda.runtime.getDeviceCount()
    parts = {"thread": one_thread, "processes": one_process_each}
    names = sys.argv[1:] or list(parts)
    for name in names:
        parts[name](ranks)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    print("libraries:", sorted({line.split()[-1] for line in maps if "libnccl.so" in line}))
    calls = sum(calls_of(name, ranks) for name in names)
    print(f"made: {calls} calls of {calls * COUNT * 4} bytes", flush=True)


if __name__ == "__main__":
    main()
