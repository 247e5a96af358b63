"""The examples run and print what they say."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sennit

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PACKAGE = Path(sennit.__file__).resolve().parent


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_ranks(command: list[str], ranks: list[dict[str, str]]) -> list[str]:
    """One process a rank, each with its own variables; what they printed."""
    processes = [
        subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for variables in ranks
    ]
    printed = []
    for process in processes:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        printed.append(out)
    return printed


@pytest.fixture
def c_program(tmp_path: Path) -> Path:
    """The C example, built against the package as an outside user would."""
    if not (PACKAGE / "include/sennit/sennit.h").exists():
        pytest.skip("install: the C example needs the package as it is installed")
    compiler = os.environ.get("CC") or shutil.which("cc") or "cc"
    program = tmp_path / "all_reduce"
    libraries = PACKAGE / "lib"
    run(
        [
            *(compiler, "-std=c99", "-Wall", "-Wextra", "-Werror"),
            str(EXAMPLES / "01_all_reduce.c"),
            *("-o", str(program), f"-I{PACKAGE / 'include'}"),
            *(f"-L{libraries}", "-lsennit", f"-Wl,-rpath,{libraries}"),
        ]
    )
    return program


def test_c_all_reduce_by_hand(c_program: Path) -> None:
    key = f"examples-{os.getpid()}"
    ranks = [{"SENNIT_RANK": str(rank), "SENNIT_SIZE": "3", "SENNIT_KEY": key} for rank in range(3)]
    printed = run_ranks([str(c_program)], ranks)
    assert printed == ["3 ranks: every element is 6\n", "", ""]


def test_python_all_reduce_starts_its_own_ranks() -> None:
    printed = run([sys.executable, str(EXAMPLES / "02_all_reduce.py")])
    assert printed == "4 ranks: every element is [10.0, 10.0, 10.0, 10.0]\n"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch")
def test_the_example_of_gpus_runs_on_cpus() -> None:
    example = str(EXAMPLES / "06_all_reduce_on_gpus.py")
    printed = run([sys.executable, example, "--device", "cpu"])
    assert printed == "4 ranks: the mean is [2.5, 2.5, 2.5, 2.5]\n"
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(os.getpid())}
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank), **variables} for rank in range(2)]
    printed_by_rank = run_ranks([sys.executable, example, "--device", "cpu"], ranks)
    assert printed_by_rank == [f"rank {rank} of 2: the mean is 1.5\n" for rank in range(2)]


LAUNCHERS = {
    "RANK": {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(os.getpid())},
    "OMPI_COMM_WORLD_RANK": {
        "OMPI_COMM_WORLD_SIZE": "2",
        "PMIX_NAMESPACE": f"example {os.getpid()}",
    },
    "SLURM_PROCID": {"SLURM_NTASKS": "2", "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"},
}


@pytest.mark.parametrize("variable", LAUNCHERS)
def test_python_all_reduce_joins_the_ranks_of_a_launcher(variable: str) -> None:
    ranks = [{variable: str(rank), **LAUNCHERS[variable]} for rank in range(2)]
    printed = run_ranks([sys.executable, str(EXAMPLES / "02_all_reduce.py")], ranks)
    assert printed == [f"rank {rank} of 2: every element is 3.0\n" for rank in range(2)]


def test_a_schedule_is_shown_and_proved() -> None:
    printed = run([sys.executable, str(EXAMPLES / "03_prove_a_schedule.py")])
    assert printed.startswith("schedule all_reduce ring ranks=3 root=0 cut=3\n")
    assert "proved with 2 slots: True\nalso in place: True" in printed
    assert printed.endswith("1 to 16 ranks: 16 instances, 0 failed\n")
