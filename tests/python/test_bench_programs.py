"""The benchmark of programs of PyTorch, with small programs on CPU ranks."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "bench/programs/run.py"


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch")
def test_programs_return_the_same_over_both_libraries(tmp_path: Path) -> None:
    out = tmp_path / "programs.json"
    programs = ("decode, 1 token", "MoE, 64 tokens", "FSDP2", "DDP")
    chosen = [word for program in programs for word in ("--program", program)]
    command = [sys.executable, str(RUN), "--device", "cpu", "--rounds", "1", "--out", str(out)]
    done = subprocess.run([*command, *chosen], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["passed"]
    assert document["not_run"] == []
    assert [row["program"] for row in document["rows"]] == list(programs)
    for row in document["rows"]:
        assert row["rival"] == "gloo"
        assert row["ms_a_step"] > 0
        assert row["rival_ms_a_step"] > 0
        assert row["faults"] == []
