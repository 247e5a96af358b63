"""Sharded and pipelined models on the backend `sennit`."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from test_torch import run_ranks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"),
    pytest.mark.timeout(600),  # the first test compiles the backend
]


@pytest.mark.parametrize(
    ("what", "ranks"),
    [
        ("sharded", 3),
        ("sharded_in_two_dimensions", 4),
        ("pipelined", 2),
    ],
)
def test_models_come_to_the_result_of_one_process(what: str, ranks: int, tmp_path: Path) -> None:
    run_ranks(f"torch_sharding.{what}", ranks, tmp_path)
