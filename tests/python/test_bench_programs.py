"""The benchmark of programs of PyTorch, with small programs on CPU ranks."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

RUN = Path(__file__).parents[2] / "bench/programs/run.py"


pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"
)


def rows_of(programs: tuple[str, ...], folder: Path, *options: str) -> list[dict[str, Any]]:
    out = folder / "programs.json"
    chosen = [word for program in programs for word in ("--program", program)]
    command = [sys.executable, str(RUN), "--device", "cpu", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(
        [*command, *chosen, *options], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["passed"]
    assert document["not_run"] == []
    rows: list[dict[str, Any]] = document["rows"]
    assert [row["program"] for row in rows] == list(programs)
    return rows


def test_programs_return_the_same_over_both_libraries(tmp_path: Path) -> None:
    programs = ("decode, 1 token", "MoE, 64 tokens", "FSDP2", "DDP", "turbulence, 256")
    calls = ("one all_reduce, 1 MB", "one uneven all_to_all, 1 MB", "one ring, 1 MB")
    for row in rows_of(programs + calls, tmp_path):
        assert row["rival"] == "gloo"
        assert row["ms_a_step"] > 0
        assert row["rival_ms_a_step"] > 0
        assert row["faults"] == []


def test_decoding_returns_the_same_in_one_call(tmp_path: Path) -> None:
    programs = ("decode, 8 tokens", "decode FP8, 8 tokens")
    for row in rows_of(programs, tmp_path, "--fused", "gloo"):
        assert row["faults"] == []


def test_codecs_change_what_a_simulation_returns_a_little(tmp_path: Path) -> None:
    [row] = rows_of(("turbulence, 256",), tmp_path, "--codec", "q16")
    assert row["faults"] == []
    assert 0 < row["error"] < 1e-3
    # The energy of the vortices of Taylor and Green, which lose little of it in a step.
    assert abs(sum(row["results"]["gloo"]) / 2 - 1 / 8) < 1e-5


def test_ranks_that_share_gpus_run_under_the_service_while_it_is_there(tmp_path: Path) -> None:
    said = tmp_path / "said"
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(f'#!/bin/sh\n{{ echo "$1" "$CUDA_MPS_PIPE_DIRECTORY"; cat; }} >> {said}\n')
    control.chmod(0o755)
    command = [sys.executable, str(RUN), "--out", str(tmp_path / "out"), "--ours", "/nowhere"]
    done = subprocess.run(
        [*command, "--ranks", "2", "--gpus", "1", "--mps", "--rival", "gloo", "--limit-s", "0"],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 3, done.stderr  # without a GPU no rank starts
    lines = said.read_text().splitlines()
    assert lines[0].startswith("-d /")
    assert lines[-1] == "quit"
    for wrong in (["--mps"], ["--rival", "gloo", "--device", "cpu"]):
        assert subprocess.run([*command, *wrong], check=False, capture_output=True).returncode == 2
