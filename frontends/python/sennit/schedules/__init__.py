"""Schedules of one's own: written, shown, proved, simulated, and run.

A schedule is the program of a collective for one tile, as data; docs/schedule.md says what it
means, and the words here are those of that page::

    from sennit.schedules import Builder

    b = Builder("star", "broadcast", ranks=3)
    lanes = b.lanes()  # one on every rank
    b.copy(lanes[0], b.input[0], b.output[0])
    for rank in (1, 2):
        channel = b.channel(lanes[0], lanes[rank])
        b.send(lanes[0], b.input[0], channel)
        b.recv(lanes[rank], channel, b.output[0])
    star = b.build()

    print(star.show())
    print(star.verify())  # raises NotProved with the first defect
    print(star.simulate("thetagpu", 1 << 20).seconds)
    star.draw("star.svg")
    comm.broadcast(x, schedule=star)  # on all ranks
"""

from sennit.schedules.builder import Block, Buffer, Builder, Channel, Lane, Step
from sennit.schedules.schedule import Link, Proof, Schedule, Simulation, from_json, known, load

__all__ = [
    "Block",
    "Buffer",
    "Builder",
    "Channel",
    "Lane",
    "Link",
    "Proof",
    "Schedule",
    "Simulation",
    "Step",
    "from_json",
    "known",
    "load",
]
