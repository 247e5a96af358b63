"""All ranks add their tensors of PyTorch: on GPUs, or the same on CPUs.

python 06_all_reduce_on_gpus.py                         # a rank for each GPU
python 06_all_reduce_on_gpus.py --device cpu            # four ranks in host memory
torchrun --nproc-per-node 2 06_all_reduce_on_gpus.py    # the ranks of a launcher
"""

from __future__ import annotations

import argparse
import os

import sennit
import torch


def add_up(comm: sennit.Communicator) -> float:
    """What each rank does; gives one element of the sum."""
    x = torch.full((1 << 20,), comm.rank + 1.0, device=comm.device)
    comm.all_reduce(x, x)

    # On GPUs the call is in PyTorch's current stream by now: what PyTorch does with x comes after
    # it. Nothing has waited; reading an element on the host does.
    x /= comm.size
    return float(x[-1])


def on_gpus(comm: sennit.Communicator) -> None:
    """What GPU ranks can do besides: streams and graphs."""
    x = torch.ones(1 << 20, device=comm.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    comm.all_reduce(x, x, stream=side)
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        comm.all_reduce(x, x)
    graph.replay()
    torch.cuda.synchronize()


def rank(comm: sennit.Communicator) -> float:
    """All of it."""
    if comm.device != "cpu":
        torch.cuda.set_device(comm.device)
        on_gpus(comm)
    return add_up(comm)


def main() -> None:
    """Be a rank of a launcher, or start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    device: str = parser.parse_args().device
    if "RANK" in os.environ:  # of torchrun
        if device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        with sennit.init(device=device) as world:
            print(f"rank {world.rank} of {world.size}: the mean is {rank(world)}")
    else:
        ranks = torch.cuda.device_count() if device == "cuda" else 4
        if ranks == 0:
            parser.error("PyTorch finds no GPU here; pass --device cpu")
        print(f"{ranks} ranks: the mean is {sennit.spawn(rank, ranks, device=device)}")


if __name__ == "__main__":
    main()
