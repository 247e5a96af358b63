"""Schedules of one's own: what is right runs, and what is wrong says where."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import rank_functions
import sennit
from sennit import schedules
from sennit.schedules import Builder, Schedule

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

HERE = Path(__file__)
REFUSALS = (sennit.InvalidArgument, sennit.Unsupported, sennit.NotProved)


def star(ranks: int = 3, root: int = 0, name: str = "star") -> Builder:
    """A broadcast by which the root sends to each."""
    b = Builder(name, "broadcast", ranks, root=root)
    lanes = b.lanes("move")
    b.copy(lanes[root], b.input[0], b.output[0])
    for rank in range(ranks):
        if rank != root:
            channel = b.channel(lanes[root], lanes[rank])
            b.send(lanes[root], b.input[0], channel)
            b.recv(lanes[rank], channel, b.output[0])
    return b


def sum_at_all(ranks: int = 3, name: str = "sum_at_all") -> Schedule:
    """An all_reduce by which each rank sends its vector to each."""
    b = Builder(name, "all_reduce", ranks)
    lanes = b.lanes()
    channels = {
        (a, z): b.channel(lanes[a], lanes[z]) for a in range(ranks) for z in range(ranks) if a != z
    }
    for rank, lane in enumerate(lanes):
        others = [other for other in range(ranks) if other != rank]
        for other in others:
            b.send(lane, b.input[0], channels[rank, other])
        # Operand 0 is the rank's own; the order of ranks makes the sum the same everywhere.
        order = [0 if r == rank else others.index(r) + 1 for r in range(ranks)]
        b.recv_reduce(
            lane,
            [channels[other, rank] for other in others],
            b.input[0],
            b.output[0],
            order=order,
        )
    return b.build()


def test_a_schedule_is_written_in_the_words_of_the_page() -> None:
    shown = star().build().show()
    assert shown.startswith("schedule broadcast star ranks=3 root=0 cut=1\nchannel c0 0.0 -> 1.0\n")
    assert "    0 copy        input[0] -> output[0]\n    1 send        input[0] -> c0\n" in shown


def test_what_is_right_is_proved() -> None:
    proof = sum_at_all().verify()
    assert proof.reproducible
    assert len(proof.structure_hash) == 16
    assert star().build().verify().in_place


def test_what_is_wrong_has_no_proof() -> None:
    b = Builder("half", "all_reduce", 2)
    lanes = b.lanes()
    for lane in lanes:
        b.copy(lane, b.input[0], b.output[0])
    with pytest.raises(sennit.NotProved, match=r"output\[0\] of rank 0 lacks the contribution"):
        b.build().verify()


def test_a_circle_of_waits_has_no_proof_and_ends_all_the_same() -> None:
    b = Builder("circle", "all_reduce", 2)
    lanes = b.lanes()
    there, back = b.channel(lanes[0], lanes[1]), b.channel(lanes[1], lanes[0])
    for lane, source, out in ((lanes[0], back, there), (lanes[1], there, back)):
        b.recv_reduce(lane, source, b.input[0], b.output[0])
        b.send(lane, b.input[0], out)
    circle = b.build()
    with pytest.raises(sennit.NotProved):
        circle.verify()
    with pytest.raises(sennit.Error):
        circle.simulate("thetagpu", 1024)
    assert circle.show()


def structure_faults() -> dict[str, tuple[Callable[[Builder], Any], str]]:
    """Mistakes by name: what makes them in a star of three ranks, and what is said."""
    lane = schedules.Lane(1, 0)
    return {
        "input": (
            lambda b: b.copy(lane, b.output[0], b.input[0]),
            r"rank 1 lane 0 step 1: input\[0\] is outside its 0 blocks",
        ),
        "writes input": (
            lambda b: b.copy(schedules.Lane(0, 0), b.output[0], b.input[0]),
            r"rank 0 lane 0 step 3: writes input\[0\]",
        ),
        "no such block": (
            lambda b: b.copy(lane, b.output[3], b.output[0]),
            r"rank 1 lane 0 step 1: output\[3\] is outside its 1 blocks",
        ),
        "negative block": (
            lambda b: b.copy(lane, b.output[-1], b.output[0]),
            r"programs\[1\]\[0\]\.steps\[1\]\.from\[0\]\[1\] is -1",
        ),
        "no such scratch": (
            lambda b: b.copy(lane, schedules.Buffer("stage")[0], b.output[0]),
            r"is 'stage', expected 'input', 'output' or the name of a scratch",
        ),
        "another's channel": (
            lambda b: b.send(lane, b.output[0], schedules.Channel(0)),
            "rank 1 lane 0 step 1: it is not the writer of channel 0",
        ),
        "no such channel": (
            lambda b: b.send(lane, b.output[0], schedules.Channel(7)),
            "rank 1 lane 0 step 1: it is not the writer of channel 7",
        ),
        "nobody takes it": (
            lambda b: b.send(schedules.Lane(0, 0), b.input[0], schedules.Channel(0)),
            "channel 0 carries 2 messages a tile, but rank 1 takes 1",
        ),
        "no such step": (
            lambda b: b.copy(lane, b.output[0], b.output[0], after=schedules.Step(lane, 9)),
            "rank 1 lane 0 step 1: after 0.9 is not there",
        ),
        "channel to itself": (
            lambda b: b.channel(lane, b.lane(1)),
            "channel 2 has two ends on one rank",
        ),
        "channel without messages": (
            lambda b: b.channel(schedules.Lane(0, 0), schedules.Lane(2, 0)),
            "channel 2 carries no message; leave it out",
        ),
        "channel to nowhere": (
            lambda b: b.channel(lane),
            "channel 2 lacks a writing lane or a reader",
        ),
        "lists of different lengths": (
            lambda b: b.copy(lane, b.output[0], b.output[0:2]),
            r"rank 1 lane 0 step 1: ",
        ),
    }


@pytest.mark.parametrize("fault", structure_faults())
def test_a_structural_mistake_has_its_place_and_its_line(fault: str) -> None:
    make, said = structure_faults()[fault]
    b = star()
    make(b)
    with pytest.raises(sennit.InvalidArgument, match=said) as caught:
        b.build()
    assert "please report" not in str(caught.value)
    line = re.search(r"\(written at (.*):(\d+)\)$", str(caught.value))
    assert line, caught.value
    assert line[1] == str(HERE)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: star().lane(3), "a lane of rank 3: the ranks are 0 to 2"),
        (lambda: Builder("two words", "barrier", 2).build(), "the name of an algorithm is a word"),
        (lambda: Builder("x", "all_reduced", 2).build(), "is 'all_reduced', expected one of"),
        (lambda: Builder("x", "reduce", 2, root=2).build(), "root is 2, expected 0 to 1"),
        (lambda: Builder("x", "reduce", 2, cut=0).build(), "cut is 0"),
        (
            lambda: star().copy(schedules.Lane(0, 0), cast("Any", "input"), ()),
            "where a Block is",
        ),
        (lambda: star().input[1:], r"input\[...:\] has no end"),
        (lambda: schedules.from_json("{"), "schedule:1:2"),
        (lambda: schedules.from_json({}), "schedule lacks the key 'schema'"),
    ],
)
def test_other_mistakes_are_named(make: Callable[[], object], said: str) -> None:
    with pytest.raises(sennit.InvalidArgument, match=said):
        make()


def test_files_and_pickles_hold_the_same_schedule(tmp_path: Path) -> None:
    mine = star().build()
    mine.save(tmp_path / "star.json")
    assert schedules.load(tmp_path / "star.json") == mine
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert schedules.from_json(mine.to_json()) == mine
    assert star(name="other").build() != mine
    assert len({mine, star().build()}) == 1


def test_a_broken_file_names_itself(tmp_path: Path) -> None:
    form = star().build().to_json()
    form["programs"][2][0]["steps"][0]["to"] = [["input", 0]]
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(form))
    said = rf"^{re.escape(str(file))}: schedule broadcast star: rank 2 lane 0 step 0: input\[0\]"
    with pytest.raises(sennit.InvalidArgument, match=said):
        schedules.load(file)


def test_the_librarys_own_schedules_can_be_had() -> None:
    ring = schedules.known("all_reduce", "ring", 4)
    assert (ring.name, ring.collective, ring.ranks) == ("ring", "all_reduce", 4)
    assert ring.verify().in_place


def test_a_recv_and_the_send_of_its_block_are_fused_unless_asked_not_to() -> None:
    b = Builder("chain", "broadcast", 3)
    lanes = b.lanes("move")
    first, second = b.channel(lanes[0], lanes[1]), b.channel(lanes[1], lanes[2])
    b.send(lanes[0], b.input[0], first)
    b.copy(lanes[0], b.input[0], b.output[0])
    b.recv(lanes[1], first, b.output[0])
    b.send(lanes[1], b.output[0], second)
    b.recv(lanes[2], second, b.output[0])
    assert "recv        c0 -> output[0], c1" in b.build().show()
    assert "send        output[0] -> c1" in b.build(fuse=False).show()


def test_simulations_know_machine_and_links(tmp_path: Path) -> None:
    ring = schedules.known("all_reduce", "ring", 8)
    run = ring.simulate(
        "thetagpu", 1 << 20, trace=tmp_path / "trace.json", picture=tmp_path / "run.svg"
    )
    assert run.paths == ("nvlink",)
    assert 0 < run.seconds < 1
    assert 0 < run.links[0].busy <= 1
    assert (tmp_path / "run.svg").read_text().startswith("<svg")
    assert json.loads((tmp_path / "trace.json").read_text())
    assert ring.simulate("thetagpu", 1 << 20, protocol="slots").seconds > 0


def test_a_drawing_of_too_many_steps_is_refused(tmp_path: Path) -> None:
    star().build().draw(tmp_path / "star.svg")
    assert (tmp_path / "star.svg").read_text().startswith("<svg")
    with pytest.raises(sennit.InvalidArgument, match="too many to draw"):
        schedules.known("all_reduce", "ring", 48).draw(tmp_path / "ring.svg")


def test_calls_run_it() -> None:
    def main(comm: sennit.Communicator) -> tuple[list[float], list[int], str]:
        x = np.arange(1000, dtype=np.float32) + comm.rank
        total = comm.all_reduce(x, schedule=sum_at_all())
        work = comm.start.all_reduce(x, schedule=sum_at_all())
        assert (work.wait() == total).all()
        y = np.full(5, comm.rank, np.int64)
        comm.broadcast(y, root=1, schedule=star(root=1).build())
        return list(total[:2]), y.tolist(), sum_at_all().algorithm

    results = sennit.spawn(main, 3, threads=True)
    assert results == [([3.0, 6.0], [1] * 5, sum_at_all().algorithm)] * 3


def test_processes_get_it_as_an_argument() -> None:
    assert sennit.spawn(rank_functions.add_by, 3, sum_at_all()) == [6.0] * 3


def test_without_a_proof_nothing_is_sent_and_the_communicator_works_on() -> None:
    b = Builder("half", "all_reduce", 2)
    for lane in b.lanes():
        b.copy(lane, b.input[0], b.output[0])
    half = b.build()

    def main(comm: sennit.Communicator) -> float:
        x = np.ones(4)
        with pytest.raises(sennit.NotProved, match="lacks the contribution"):
            comm.all_reduce(x, schedule=half)
        return float(comm.all_reduce(x)[0])

    assert sennit.spawn(main, 2, threads=True) == [2.0, 2.0]


def test_ranks_that_bring_different_ones_are_named() -> None:
    def main(comm: sennit.Communicator) -> str:
        # The last rank: of two that differ, before the third has come, the lower one counts.
        mine = sum_at_all(name="mine" if comm.rank != 2 else "other")
        with pytest.raises(sennit.Mismatch) as caught:
            comm.all_reduce(np.ones(4), schedule=mine)
        assert caught.value.blamed_ranks == (2,)
        return str(caught.value)

    for said in sennit.spawn(main, 3, threads=True):
        assert "rank 2" in said


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda comm: comm.all_reduce(np.ones(4), schedule=sum_at_all(2)),
            sennit.Unsupported,
            "this schedule is for 2 ranks",
        ),
        (
            lambda comm: comm.broadcast(np.ones(4), root=1, schedule=star().build()),
            sennit.Unsupported,
            "this schedule is for root 0, and the call has root 1",
        ),
        (
            lambda comm: comm.all_gather(np.ones(4), schedule=star().build()),
            sennit.InvalidArgument,
            "is a schedule of broadcast, and the call is all_gather",
        ),
        (
            lambda comm: comm.all_reduce(np.ones(4), algorithm="ring", schedule=sum_at_all()),
            sennit.InvalidArgument,
            "two ways to run one call",
        ),
        (
            lambda comm: comm.all_reduce(np.ones(4), schedule="star.json"),
            sennit.InvalidArgument,
            "schedule is a str, expected what sennit.schedules",
        ),
    ],
)
def test_calls_that_it_does_not_fit_are_refused(
    call: Callable[[sennit.Communicator], object], error: type[sennit.Error], said: str
) -> None:
    def main(comm: sennit.Communicator) -> None:
        with pytest.raises(error, match=said):
            call(comm)
        comm.barrier()

    sennit.spawn(main, 3, threads=True)


def test_the_command_line_takes_files(sennit_command: Command, tmp_path: Path) -> None:
    file = str(tmp_path / "star.json")
    star(2).build().save(file)
    shown = sennit_command("show", "--schedule", file)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("schedule broadcast star ranks=2")
    proved = sennit_command("verify", "--schedule", file)
    assert proved.returncode == 0, proved.stderr
    assert "proved with 2 slots a channel; in place too" in proved.stdout
    timed = sennit_command("simulate", "--schedule", file, "--machine", "thetagpu", "--bytes", "1M")
    assert timed.returncode == 0, timed.stderr
    assert timed.stdout.startswith("broadcast star of 1M on 2 ranks of thetagpu")
    measured = sennit_command(
        "bench", "--schedule", file, "-b", "8", "-e", "64K", "-f", "64", "-n", "2", "--json", "-"
    )
    assert measured.returncode == 0, measured.stderr
    rows = json.loads(measured.stdout)["rows"]
    assert {(row["collective"], row["algorithm"], row["ranks"]) for row in rows} == {
        ("broadcast", "star", 2)
    }
    assert not any(row["wrong"] for row in rows)


def test_the_command_line_says_what_is_wrong_with_a_file(
    sennit_command: Command, tmp_path: Path
) -> None:
    b = Builder("half", "all_reduce", 2)
    for lane in b.lanes():
        b.copy(lane, b.input[0], b.output[0])
    file = str(tmp_path / "half.json")
    b.build().save(file)
    for command in (["verify"], ["show"], ["bench"]):
        refuted = sennit_command(*command, "--schedule", file)
        assert refuted.returncode == 1
        assert "lacks the contribution" in refuted.stdout + refuted.stderr
    for words, said in {
        ("show",): "name a COLLECTIVE",
        ("show", "--schedule", file, "--ranks", "3"): "--ranks and --schedule",
        ("verify", "broadcast", "--schedule", file): "COLLECTIVE and --schedule",
        ("bench", "--schedule", file, "--ranks", "3"): "is for 2 ranks, and there are 3",
        ("show", "--schedule", str(tmp_path / "none.json")): "cannot read",
        ("verify", "--schedule", __file__): f"{__file__}:1:",
    }.items():
        refused = sennit_command(*words)
        assert refused.returncode == 2, (words, refused.stderr)
        assert said in refused.stderr, words
        assert "Traceback" not in refused.stderr


def mutated(form: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The form with one value of its steps, channels or sizes changed."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk({key: form[key] for key in ("programs", "channels", "scratch")})
    parent, key = rng.choice(places[3:])
    value = parent[key]
    if isinstance(value, int):
        parent[key] = rng.choice((value + 1, value - 1, 0, 10**6))
    elif isinstance(value, str):
        parent[key] = rng.choice(("input", "output", "send", "recv", "copy", "reduce", "token"))
    elif isinstance(value, list) and value and rng.random() < 0.5:
        value.append(rng.choice(value))
    else:
        del parent[key]
    return form


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_schedule_is_refused_refuted_or_proved(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(40):
        collective, algorithm, ranks = rng.choice(
            [
                ("all_reduce", "ring", 3),
                ("all_reduce", "hierarchical", 4),
                ("broadcast", "hub", 3),
                ("all_to_all", "bruck", 4),
                ("barrier", "tree", 4),
            ]
        )
        form = mutated(schedules.known(collective, algorithm, ranks).to_json(), rng)
        try:
            changed = schedules.Schedule(json.dumps(form), fuse=rng.random() < 0.5)
            assert changed.show()
            for protocol in (None, "slots"):
                with contextlib.suppress(*REFUSALS):
                    changed.simulate("thetagpu", 4096, protocol=protocol)
            changed.verify()
            outcomes.add("proved")
        except sennit.InvalidArgument:
            outcomes.add("refused")
        except sennit.NotProved:
            outcomes.add("refuted")
    assert outcomes >= {"refused", "refuted"}
