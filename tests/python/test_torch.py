"""The backend `sennit` of torch.distributed, beside Gloo."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"
)

PROGRAM = "import sys, torch_ranks; getattr(torch_ranks, sys.argv[1])(*map(eval, sys.argv[2:]))"


def run_ranks(what: str, ranks: int, folder: Path) -> None:
    """Run a function of torch_ranks.py as so many processes; all must end well."""
    file = repr(str(folder / "store"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, what, str(rank), str(ranks), file],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=100)[0] for process in processes]
    for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
        assert process.returncode == 0, f"rank {rank} of {ranks}:\n{output}"


def test_collectives_give_what_gloo_gives(tmp_path: Path) -> None:
    run_ranks("collectives", 3, tmp_path)


def test_messages_arrive(tmp_path: Path) -> None:
    run_ranks("messages", 2, tmp_path)


def test_elements_match_by_index_in_any_dense_order(tmp_path: Path) -> None:
    run_ranks("dense_orders", 3, tmp_path)


def test_groups_of_some_ranks_work(tmp_path: Path) -> None:
    run_ranks("groups", 3, tmp_path)


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    run_ranks("refusals", 2, tmp_path)


@pytest.mark.parametrize("ranks", [2, 4])
def test_training_comes_to_the_result_of_gloo(ranks: int, tmp_path: Path) -> None:
    run_ranks("training", ranks, tmp_path)


def test_the_death_of_a_rank_is_told(tmp_path: Path) -> None:
    run_ranks("a_rank_dies", 3, tmp_path)


@pytest.mark.parametrize(
    "what",
    [
        "two_groups_of_one_store",
        "rank_0_comes_too_late",
        "what_others_ask_of_a_group",
        "a_call_may_have_a_time_of_its_own",
        "a_timeout_may_be_an_argument",
        "the_methods_of_a_group",
        "works_that_python_drops",
        "compiled",
    ],
)
def test_programs_of_pytorch_work(what: str, tmp_path: Path) -> None:
    run_ranks(what, 2, tmp_path)


def test_the_example_trains(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples/04_train_on_cpu_ranks.py"
    answer = subprocess.run(
        [sys.executable, str(example), "2", "--steps", "5"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("2 ranks, 5 steps: sennit ")
    assert "the parameters differ by" in answer.stdout
