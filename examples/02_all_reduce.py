"""All ranks add their vectors, in two ways to get ranks.

python 02_all_reduce.py                                 # four processes of its own
torchrun --nproc-per-node 4 02_all_reduce.py            # the ranks of a launcher, such as torchrun,
mpirun -n 4 python 02_all_reduce.py                     # mpirun or srun
"""

from __future__ import annotations

import numpy as np
import sennit


def add_up(comm: sennit.Communicator) -> float:
    """What each rank does; gives one element of the sum."""
    x = np.full(1 << 20, comm.rank + 1, dtype=np.float32)
    comm.all_reduce(x, x)  # in place; without a second argument the result is a new array

    # The same without waiting. The buffer must be left alone until wait() has returned.
    work = comm.start.all_reduce(x, x, op="max")
    work.wait()
    return float(x[-1])


if __name__ == "__main__":
    try:
        world = sennit.init()
    except sennit.InvalidUsage:  # no launcher has started this process
        print(f"4 ranks: every element is {sennit.spawn(add_up, 4)}")
    else:
        with world:
            print(f"rank {world.rank} of {world.size}: every element is {add_up(world)}")
