"""An all_reduce of one's own: written, refuted, mended, simulated on a DGX-A100, and run here.

python 05_a_schedule_of_your_own.py

Two rings at once, one in each direction, each with half of the vector. The simulation says what
that brings where every wire leads to one switch: nothing, as one ring uses both ways of each there.
"""

from __future__ import annotations

import numpy as np
import sennit
from sennit.schedules import Builder, Schedule, known


def two_rings(ranks: int, *, mended: bool) -> Schedule:
    """The schedule; docs/schedule.md says what the words mean."""
    b = Builder("two_rings", "all_reduce", ranks, cut=2 * ranks)
    for way, first in ((1, 0), (-1, ranks)):  # to the next rank, and to the one before
        lanes = b.lanes()
        to_next = [b.channel(lanes[r], lanes[(r + way) % ranks]) for r in range(ranks)]
        for rank in range(ranks):
            lane, out, source = lanes[rank], to_next[rank], to_next[(rank - way) % ranks]
            step = way if mended else 1  # the second ring passes its blocks on the other way
            blocks = [first + (rank - step * k) % ranks for k in range(ranks)]

            # Each block goes round once and is summed up, ...
            b.send(lane, b.input[blocks[0]], out)
            for block in blocks[1:-1]:
                b.recv_reduce(lane, source, b.input[block], out=out)
            last = blocks[-1]
            b.recv_reduce(lane, source, b.input[last], to=b.output[last], out=out)
            # ... and the sum once more, to all.
            for block in blocks[:-2]:
                b.recv(lane, source, to=b.output[block], out=out)
            b.recv(lane, source, to=b.output[blocks[-2]])
    return b.build()


def add_up(comm: sennit.Communicator, schedule: Schedule) -> float:
    """What each rank does."""
    x = np.full(1 << 20, comm.rank + 1, dtype=np.float32)
    comm.all_reduce(x, x, schedule=schedule)
    return float(x.min())


if __name__ == "__main__":
    try:
        two_rings(8, mended=False).verify()
    except sennit.NotProved as error:
        print(f"not proved: {error}")

    schedule = two_rings(8, mended=True)
    print(f"proved, in place too: {schedule.verify().in_place}")

    for one in (known("all_reduce", "ring", 8), schedule):
        seconds = one.simulate("thetagpu", 256 << 20).seconds
        print(f"256 MB on the 8 GPUs of a DGX-A100, {one.name}: {seconds * 1e3:.2f} ms")

    print(f"run on 4 ranks: {sennit.spawn(add_up, 4, two_rings(4, mended=True))}")
