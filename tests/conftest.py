"""What is done once before the Python suites, however many workers share their tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_WITH_TORCH = ("test_bench_ddp", "test_examples", "test_failures", "test_nodes", "test_torch")
_WORKER = "PYTEST_XDIST_WORKER"


# Threads of PyTorch poll for each other. Ranks and workers are more than the cores already.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile for the workers that are about to start, whatever they will run."""
    if session.config.getoption("numprocesses", None) and _WORKER not in os.environ:
        _compile_backend()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile where there are no workers, if a test needs it."""
    if _WORKER not in os.environ and any(item.path.stem in _WITH_TORCH for item in session.items):
        _compile_backend()


def _compile_backend() -> None:
    """Compile the backend of PyTorch before any rank has to: time limits of tests are shorter."""
    if importlib.util.find_spec("torch") is not None:
        load = "import sennit.torch.extension as e; e.load()"
        subprocess.run([sys.executable, "-c", load], check=False, timeout=600)
