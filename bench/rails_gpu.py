"""Times calls of GPU ranks on several nodes, and those of NCCL and Gloo, in turn.

    python bench/rails_gpu.py --ranks 2 --out out/rails-gpu.json

The nodes are virtual ones of this machine (SENNIT_NODE) with as many ranks each, and their card is
the loopback interface. NCCL gets the same: without P2P and shared memory its messages pass through
sockets. It is left out where ranks share a GPU, which it refuses. Gloo's calls are on host memory,
with a copy there and back. A sample is the mean of some calls that are enqueued together; each
row has medians over rounds in which every library has its turn. Results are checked.

Needs PyTorch with CUDA, and UCX.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sennit
from sennit.cli.bench_document import document

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))
import result_files

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all")
SIZES = (1 << 10, 16 << 10, 256 << 10, 4 << 20, 64 << 20)
"""Bytes of the larger buffer of a rank."""
ROUNDS = 15
ENOUGH_S = 0.02
"""A sample has calls for about so long."""
MOST_CALLS = 20


class Turn:
    """One library's form of a call, on tensors of its own."""

    def __init__(self, call: Callable[[], None], out: Any) -> None:
        """`call` leaves its result in `out`."""
        self.call, self.out, self.samples = call, out, list[float]()


def turns(collective: str, elements: int, comm: Any, group: Any, rank: int) -> dict[str, Turn]:
    """The call in each library; `group`: NCCL's, or None."""
    import torch
    import torch.distributed as dist

    size = comm.size
    part = elements // size
    gives = part if collective == "all_gather" else elements
    gets = part if collective == "reduce_scatter" else elements
    mine = torch.arange(gives, device="cuda", dtype=torch.float32) % 100 + rank

    def own() -> Turn:
        x, out = mine.clone(), torch.zeros(gets, device="cuda")
        if collective == "broadcast":
            return Turn(lambda: comm.broadcast(x, root=0), x)
        call = getattr(comm, collective)
        return Turn(lambda: call(x, out), out)

    def of_torch(x: Any, out: Any, to: Any) -> Callable[[], None]:
        return {
            "all_reduce": lambda: (out.copy_(x), dist.all_reduce(out, group=to)),
            "reduce_scatter": lambda: dist.reduce_scatter_tensor(out, x, group=to),
            "all_gather": lambda: dist.all_gather_into_tensor(out, x, group=to),
            "broadcast": lambda: dist.broadcast(x, 0, group=to),
            "all_to_all": lambda: dist.all_to_all_single(out, x, group=to),
        }[collective]

    def nccl() -> Turn:
        x, out = mine.clone(), torch.zeros(gets, device="cuda")
        return Turn(of_torch(x, out, group), x if collective == "broadcast" else out)

    def gloo() -> Turn:
        x, out = mine.clone(), torch.zeros(gets, device="cuda")
        host_x, host_out = x.cpu().pin_memory(), out.cpu().pin_memory()
        call = of_torch(host_x, host_out, None)
        result, host_result = (x, host_x) if collective == "broadcast" else (out, host_out)

        def staged() -> None:
            host_x.copy_(x)
            call()
            result.copy_(host_result)

        return Turn(staged, result)

    made = {"sennit": own(), "gloo": gloo()}
    if group is not None:
        made["nccl"] = nccl()
    return made


def timed(turn: Turn, calls: int) -> float:
    """Seconds a call, until the GPU is done."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        turn.call()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / calls


def row(collective: str, bytes_: int, comm: Any, group: Any, rank: int) -> dict[str, Any]:
    """Medians of all libraries, of the slowest rank."""
    import torch
    import torch.distributed as dist

    made = turns(collective, bytes_ // 4, comm, group, rank)
    first = {name: timed(turn, 1) for name, turn in made.items()}
    torch.cuda.synchronize()
    for name, turn in made.items():
        assert torch.equal(turn.out, made["sennit"].out), f"{collective}, {bytes_}: {name} differs"
    longest = torch.tensor([first[name] for name in made])
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    calls = {
        name: max(1, min(MOST_CALLS, int(ENOUGH_S / float(s))))
        for name, s in zip(made, longest, strict=True)
    }
    for _ in range(ROUNDS):
        for name, turn in made.items():
            sample = torch.tensor([timed(turn, calls[name])])
            dist.all_reduce(sample, op=dist.ReduceOp.MAX)
            turn.samples.append(float(sample) * 1e6)
    result: dict[str, Any] = {"collective": collective, "bytes": bytes_}
    for name, turn in made.items():
        prefix = "" if name == "sennit" else f"{name}_"
        result[f"{prefix}median_us"] = statistics.median(turn.samples)
        result[f"{prefix}min_us"] = min(turn.samples)
    return result


def be_a_rank(arguments: argparse.Namespace) -> None:
    """Rank 0 writes the rows."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("gloo")
    has_nccl = arguments.ranks <= torch.cuda.device_count()
    group = dist.new_group(backend="nccl") if has_nccl else None
    comm = sennit.init(device="cuda")
    rows = [
        row(collective, bytes_, comm, group, rank)
        for collective in arguments.collectives
        for bytes_ in SIZES
    ]
    comm.destroy()
    if rank == 0:
        rivals = ["gloo"] + (["nccl"] if has_nccl else [])
        version = ".".join(map(str, torch.cuda.nccl.version()))
        whole = document(rows) | {
            "ranks": arguments.ranks,
            "nodes": arguments.nodes,
            "gpu": torch.cuda.get_device_name(),
            "rivals": rivals,
            "versions": {"torch": torch.__version__, "nccl": version},
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        program = {"program": "bench/rails_gpu.py"}
        result_files.write(arguments.out, {"schema": whole.pop("schema")} | program | whole)
    dist.destroy_process_group()


def free_port() -> int:
    """A TCP port of the loopback address that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(rank: int, ranks: int, nodes: int, common: dict[str, str]) -> subprocess.Popen[bytes]:
    """This program as a rank."""
    own = {
        "RANK": str(rank),
        "SENNIT_RANK": str(rank),
        "SENNIT_NODE": str(rank * nodes // ranks),
    }
    return subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, **common, **own})


def main() -> int:
    """Starts the ranks, or is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--collectives", nargs="+", choices=COLLECTIVES, default=COLLECTIVES)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        be_a_rank(arguments)
        return 0
    common = {
        "WORLD_SIZE": str(arguments.ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "SENNIT_SIZE": str(arguments.ranks),
        "SENNIT_KEY": uuid.uuid4().hex,
        "SENNIT_ROOT": "127.0.0.1",
        "SENNIT_RAILS": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    ranks = [
        start(rank, arguments.ranks, arguments.nodes, common) for rank in range(arguments.ranks)
    ]
    statuses = [rank.wait() for rank in ranks]
    if any(statuses):
        print(json.dumps({"statuses": statuses}), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
