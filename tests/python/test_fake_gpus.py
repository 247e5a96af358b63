"""GPU ranks from Python on fake GPUs: tests/python/gpu/fake_gpu_calls.py with them preloaded."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LIBRARY = "tests/fake_gpus/libsennit.so"


def fake_library() -> Path | None:
    """That of the build tree that was built last."""
    found = list(HERE.parents[1].glob(f"build/*/{LIBRARY}"))
    return max(found, key=lambda file: file.stat().st_mtime, default=None)


def run_on_fake_gpus(file: str, **environment: str) -> None:
    """Run a test file under pytest with the fake GPUs in the place of the library."""
    library = fake_library()
    if library is None:
        pytest.skip(f"fakes: no build/*/{LIBRARY}, which a build of the tests without CUDA has")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, str(HERE / "gpu" / file)],
        env={**os.environ, "LD_PRELOAD": str(library), **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout


def test_calls_run_on_fake_gpus() -> None:
    run_on_fake_gpus("fake_gpu_calls.py")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch")
@pytest.mark.timeout(600)  # it may compile the backend
def test_groups_of_pytorch_run_on_fake_gpus(tmp_path: Path) -> None:
    run_on_fake_gpus("fake_torch_calls.py", FAKE_DEVICES_FOLDER=str(tmp_path))
