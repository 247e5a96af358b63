"""GPU ranks from Python on fake GPUs: tests/python/gpu/fake_gpu_calls.py with them preloaded."""

from __future__ import annotations

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


def test_calls_run_on_fake_gpus() -> None:
    library = fake_library()
    if library is None:
        pytest.skip(f"fakes: no build/*/{LIBRARY}, which a build of the tests without CUDA has")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, str(HERE / "gpu" / "fake_gpu_calls.py")],
        env={**os.environ, "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
