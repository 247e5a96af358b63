"""Every collective gives every rank the right elements: threads, then processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import pytest
import rank_functions
import sennit

SEED = 20261


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("op", sorted(oracle.REDUCTIONS))
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_reductions_equal_the_closed_formula(ranks: int, dtype: str, op: str) -> None:
    def rank(comm: sennit.Communicator) -> None:
        for count in (0, 1, 1025):
            for in_place in (False, True):
                rank_functions.check_reductions(comm, count, dtype, op, in_place=in_place)

    sennit.spawn(rank, ranks, threads=True)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", oracle.DTYPES)
def test_movements_bring_every_element_to_its_place(ranks: int, dtype: str) -> None:
    def rank(comm: sennit.Communicator) -> None:
        for count in (0, 1, 1025):
            rank_functions.check_movements(comm, count, dtype)

    sennit.spawn(rank, ranks, threads=True)


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_agree_with_the_closed_formulas(ranks: int) -> None:
    assert sennit.spawn(rank_functions.check_everything, ranks, SEED) == list(range(ranks))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_a_group_may_post_sends_and_recvs_in_any_order(ranks: int) -> None:
    sennit.spawn(rank_functions.exchange_in_opposite_order, ranks, threads=True)


def test_send_meets_recv() -> None:
    def rank(comm: sennit.Communicator) -> list[int]:
        x = np.arange(5) + 10 * comm.rank
        if comm.rank == 0:
            comm.send(x, 1)
        else:
            assert comm.recv(x, 0) is x
        return list(x)

    assert sennit.spawn(rank, 2, threads=True) == [[0, 1, 2, 3, 4]] * 2


def test_recvs_take_the_message_of_their_tag() -> None:
    def rank(comm: sennit.Communicator) -> None:
        tags = range(6)
        if comm.rank == 0:
            for tag in tags:
                comm.send(np.full(3 + tag, tag), 1, tag=tag)
        else:
            for tag in reversed(tags):
                assert comm.recv(np.empty(3 + tag, int), 0, tag=tag).tolist() == [tag] * (3 + tag)
        for wrong in (-1, 2**31):
            with pytest.raises(sennit.InvalidArgument, match=f"tag {wrong} is out of range"):
                comm.send(np.ones(1), 1 - comm.rank, tag=wrong)

    sennit.spawn(rank, 2, threads=True)


def test_a_recv_from_any_rank_says_who_sent() -> None:
    def rank(comm: sennit.Communicator) -> None:
        if comm.rank == 0:
            works = [comm.start.recv(np.zeros(1), sennit.ANY_RANK, tag=4) for _ in range(3)]
            with pytest.raises(sennit.InProgress):
                _ = works[0].peer
            values = [float(work.wait()[0]) for work in works]
            assert values == [work.peer for work in works]
            assert sorted(values) == [1, 2, 3]
        else:
            work = comm.start.send(np.full(1, float(comm.rank)), 0, tag=4)
            work.wait()
            assert work.peer == 0
        with pytest.raises(sennit.InvalidUsage, match="no send or recv"):
            _ = comm.start.barrier().peer

    sennit.spawn(rank, 4, threads=True)


def test_results_have_the_shapes_that_the_documentation_promises() -> None:
    def rank(comm: sennit.Communicator) -> list[tuple[int, ...]]:
        n = comm.size
        at_root = comm.rank == 0
        gathered = comm.gather(np.ones((2, 5)))
        return [
            comm.all_reduce(np.ones((2, 5))).shape,
            comm.all_gather(np.ones((2, 5))).shape,
            comm.reduce_scatter(np.ones((n, 4))).shape,
            comm.reduce_scatter(np.ones((2 * n, 4))).shape,
            comm.reduce_scatter(np.ones(n)).shape,
            comm.all_to_all(np.ones((2 * n, 4))).shape,
            gathered.shape if at_root else (n, 2, 5),
            comm.scatter(
                np.ones((n, 4)) if at_root else None, None if at_root else np.ones(4)
            ).shape,
        ]

    shapes = [(2, 5), (3, 2, 5), (4,), (2, 4), (1,), (6, 4), (3, 2, 5), (4,)]
    assert sennit.spawn(rank, 3, threads=True) == [shapes] * 3


def test_a_named_algorithm_gives_the_same_result() -> None:
    def rank(comm: sennit.Communicator) -> float:
        return float(comm.all_reduce(np.full(1000, 2.0), algorithm="ring")[999])

    assert sennit.spawn(rank, 3, threads=True) == [6.0] * 3


def test_four_ordinary_processes_join_by_the_variables_of_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sennit, rank_functions\n"
        "with sennit.init(timeout_s=30) as comm:\n"
        f"    print(rank_functions.check_everything(comm, {SEED}), comm.size)\n"
    )
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29517")
    processes = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        processes.append(
            subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
        )
    answers = [process.communicate(timeout=90)[0] for process in processes]
    assert answers == [f"{rank} 4\n" for rank in range(4)]


def test_host_ranks_normalise_no_rows() -> None:
    def rank(comm: sennit.Communicator) -> None:
        x = np.ones((2, 8), np.float16)
        for call in (comm.all_reduce, comm.start.all_reduce):
            with pytest.raises(sennit.Unsupported, match=r"rms_norm.* it is for GPU ranks"):
                call(x, x, rms_norm=sennit.RmsNorm())
        with pytest.raises(sennit.InvalidArgument, match="no dimensions"):
            comm.all_reduce(np.float16(1), x, rms_norm=sennit.RmsNorm())
        assert comm.all_reduce(x).tolist() == [[2.0] * 8] * 2

    sennit.spawn(rank, 2, threads=True)
