"""GPU ranks from Python on real GPUs, with the arrays of PyTorch, CuPy, Numba and JAX.

Ranks are processes with a GPU each, as many as there are, from two on. The functions that they run
are in gpu_ranks.py and, of torch.distributed, in gpu_groups.py.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpu_groups
import gpu_ranks
import pytest
import sennit
from sennit import _core
from test_gpu_nodes import run_on_nodes

ROOT = Path(__file__).resolve().parents[3]


def gpus() -> int:
    """Those that the library can use."""
    if not json.loads(_core.tool_info("{}"))["build"]["cuda"]:
        return 0
    counter: Any = None
    for module, attribute in (("torch", "cuda"), ("cupy", "cuda")):
        if importlib.util.find_spec(module) is not None:
            counter = getattr(importlib.import_module(module), attribute)
            break
    if counter is None:
        return 0
    if hasattr(counter, "device_count"):
        return int(counter.device_count())
    return int(counter.runtime.getDeviceCount())


GPUS = gpus()
pytestmark = pytest.mark.skipif(GPUS < 2, reason="gpu2: needs a build with CUDA and two GPUs")
MODULES = {"torch": "torch", "cupy": "cupy", "numba": "numba.cuda", "jax": "jax"}


def needs(library: str) -> None:
    try:
        found = importlib.util.find_spec(MODULES[library]) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        pytest.skip(f"{library}: needs {library}")


def test_the_example_runs() -> None:
    needs("torch")
    example = ROOT / "examples/06_all_reduce_on_gpus.py"
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=110, check=False
    )
    mean = (GPUS + 1) / 2
    assert done.stdout == f"{GPUS} ranks: the mean is {[mean] * GPUS}\n", done.stderr


def commands_of_the_tour() -> list[str]:
    """Those of docs/tour.md that need a GPU."""
    page = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
    found = re.search(r"^```sh gpu\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].splitlines()


@pytest.mark.parametrize("command", commands_of_the_tour())
def test_a_command_of_the_tour_runs(command: str) -> None:
    program, *arguments = command.split()
    assert program == "sennit"
    if "--executor" in arguments:
        needs("torch")  # which brings the NCCL to compare with
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPU" in done.stdout or "all_reduce" in done.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene", ["calls", "graph", "until failure"])
@pytest.mark.parametrize("nodes", ["ab", "aabb"])
def test_ranks_on_two_nodes(scene: str, nodes: str) -> None:
    needs("torch")
    run_on_nodes(scene, nodes, None)


@pytest.mark.parametrize(
    ("library", "function"),
    [
        ("torch", gpu_ranks.torch_collectives),
        ("torch", gpu_ranks.torch_new_outputs),
        ("torch", gpu_ranks.torch_types),
        ("torch", gpu_ranks.torch_streams),
        ("torch", gpu_ranks.torch_works),
        ("torch", gpu_ranks.torch_messages),
        ("torch", gpu_ranks.torch_graph),
        ("torch", gpu_ranks.torch_norms),
        ("torch", gpu_ranks.torch_large),
        ("torch", gpu_ranks.torch_symmetric),
        ("torch", gpu_ranks.torch_wrong_places),
        ("torch", gpu_ranks.torch_splits),
        ("torch", gpu_ranks.torch_pinned),
        ("torch", gpu_groups.collectives),
        ("torch", gpu_groups.asynchronous),
        ("torch", gpu_groups.messages),
        ("torch", gpu_groups.graph),
        ("torch", gpu_groups.norms),
        ("torch", gpu_groups.training),
        ("cupy", gpu_ranks.cupy_collectives),
        ("cupy", gpu_ranks.cupy_streams),
        ("cupy", gpu_ranks.cupy_graph),
        ("numba", gpu_ranks.numba_collectives),
        ("jax", gpu_ranks.jax_inputs),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_of(library: str, function: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    needs(library)
    # JAX would take three quarters of the memory of all GPUs.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setenv("GPU_TEST_STORE", str(tmp_path / "store"))
    sennit.spawn(function, GPUS, device="cuda")
