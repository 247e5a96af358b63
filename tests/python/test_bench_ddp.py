"""`sennit bench ddp`: the networks, their messages, and what is told where something is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sennit.cli import bench_ddp, run
from sennit.cli.plot_messages import by_class

Command = Callable[..., "subprocess.CompletedProcess[str]"]

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"
)
# As published for 1000 classes.
PARAMETERS = {
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "densenet201": 20_013_928,
}
COUNT = """
import json, sys, torch
from models import CLASSES, MODELS
counts = {}
for name, make in MODELS.items():
    with torch.device("meta"):
        model = make()
        assert model(torch.empty(2, 3, 224, 224)).shape == (2, CLASSES)
    counts[name] = sum(parameter.numel() for parameter in model.parameters())
print(json.dumps(counts))
"""


@needs_torch
def test_networks_have_the_published_numbers_of_parameters() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", COUNT], capture_output=True, text=True, timeout=100, check=True
    )
    assert json.loads(answer.stdout) == PARAMETERS


@needs_torch
def test_messages_are_counted_and_drawn(sennit_command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "messages.png"
    small = ("resnet50", "--bucket-mb", "25", "--bucket-mb", "256", "--against", "gloo")
    answer = sennit_command("bench", "ddp", *small, "--plot", str(picture), "--json", "-")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["schema"] == 1
    assert {"machine", "commit", "date", "versions"} <= set(document)
    small_buckets, one_bucket = document["rows"]
    whole = 4 * PARAMETERS["resnet50"]
    assert one_bucket["messages"]["step"]["all_reduce"] == {str(whole): 1}
    counted = small_buckets["messages"]["step"]["all_reduce"]
    assert len(counted) > 1
    assert sum(int(size) * count for size, count in counted.items()) == whole
    # A bucket is full when it has reached its size; the last one holds what is left.
    assert sorted(map(int, counted))[1] >= 25 << 20
    for row in document["rows"]:
        # On GPUs DDP's own list stands for what is counted here.
        assert Counter(map(str, row["buckets"])) == row["messages"]["step"]["all_reduce"]
        assert row["parameters"] == PARAMETERS["resnet50"]
        assert row["faults"] == []
        # Sums of two ranks have one order: the bits are those of Gloo.
        assert row["losses"]["sennit"] == row["losses"]["gloo"]
        assert row["ratio"] == pytest.approx(row["images_per_s"] / row["rival_images_per_s"])
        assert f"{row['images_per_s']:.1f}" in answer.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


@needs_torch
def test_a_rank_that_fails_ends_it_with_3(sennit_command: Command) -> None:
    # One value a channel is too little for a normalization.
    answer = sennit_command("bench", "ddp", "resnet50", "--images", "1", "--json", "-")
    assert answer.returncode == 3
    assert "rank 0 of 2 ended with code 1" in answer.stderr
    assert "Expected more than 1 value per channel" in answer.stderr
    assert json.loads(answer.stdout)["rows"] == []


def test_without_pytorch_the_command_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert run(["bench", "ddp"]) == 4
    assert "Next: pip install torch==" in capsys.readouterr().err


def test_without_gpus_the_host_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_gpus: dict[str, Any] = {"gpus": []}
    monkeypatch.setattr(bench_ddp, "ask", lambda _: no_gpus)
    assert run(["bench", "ddp", "--executor", "cuda"]) == 4
    assert "Next: use --executor host" in capsys.readouterr().err


def test_it_is_not_for_ranks_of_a_launcher(sennit_command: Command) -> None:
    torchrun = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    answer = sennit_command("bench", "ddp", **torchrun)
    assert answer.returncode == 2
    assert "do not use torchrun" in answer.stderr


def test_classes_of_sizes_are_powers_of_two() -> None:
    sizes = {"1": 1, "1023": 2, "1024": 3, "2047": 4, "2048": 5}
    assert by_class(sizes) == {1: 1, 512: 2, 1024: 7, 2048: 5}
