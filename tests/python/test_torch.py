"""The backend `sennit` of torch.distributed, next to Gloo."""

from __future__ import annotations

import importlib
import importlib.util
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch: needs PyTorch"),
    pytest.mark.timeout(600),  # the first test compiles the backend
]

RANKS = multiprocessing.get_context("forkserver")
"""Ranks are forked from a process that has imported PyTorch, which takes longer than most tests."""
RANKS.set_forkserver_preload(["torch.distributed", "sennit.torch"])


def be_rank(what: str, rank: int, ranks: int, folder: Path) -> None:
    """Run the function as a rank; what it prints goes to a file."""
    said = os.open(folder / f"rank-{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(said, 1)
    os.dup2(said, 2)
    module, name = what.split(".")
    getattr(importlib.import_module(module), name)(rank, ranks, str(folder / "store"))


def run_ranks(what: str, ranks: int, folder: Path) -> None:
    """Run a function of a module as so many processes; all must end well."""
    processes = [
        RANKS.Process(target=be_rank, args=(what, rank, ranks, folder), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=300)
        process.kill()  # one that hangs has no exit code
    for rank, process in enumerate(processes):
        output = (folder / f"rank-{rank}").read_text(encoding="utf-8")
        assert process.exitcode == 0, f"rank {rank} of {ranks}:\n{output}"


def test_collectives_give_what_gloo_gives(tmp_path: Path) -> None:
    run_ranks("torch_ranks.collectives", 3, tmp_path)


def test_messages_arrive(tmp_path: Path) -> None:
    run_ranks("torch_ranks.messages", 2, tmp_path)


def test_tags_and_any_source(tmp_path: Path) -> None:
    run_ranks("torch_ranks.tagged_messages", 3, tmp_path)


def test_elements_match_by_index_in_any_dense_order(tmp_path: Path) -> None:
    run_ranks("torch_ranks.dense_orders", 3, tmp_path)


def test_results_are_not_lost_in_copies_of_lazy_views(tmp_path: Path) -> None:
    run_ranks("torch_ranks.lazy_views", 2, tmp_path)


def test_sparse_tensors_are_added(tmp_path: Path) -> None:
    run_ranks("torch_ranks.sparse", 3, tmp_path)


def test_groups_of_some_ranks_work(tmp_path: Path) -> None:
    run_ranks("torch_ranks.groups", 3, tmp_path)


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    run_ranks("torch_ranks.refusals", 2, tmp_path)


@pytest.mark.parametrize("ranks", [2, 4])
def test_training_comes_to_the_result_of_gloo(ranks: int, tmp_path: Path) -> None:
    run_ranks("torch_programs.training", ranks, tmp_path)


def test_the_death_of_a_rank_is_told(tmp_path: Path) -> None:
    run_ranks("torch_programs.a_rank_dies", 3, tmp_path)


@pytest.mark.parametrize(
    "what",
    [
        "two_groups_of_one_store",
        "rank_0_comes_too_late",
        "what_others_ask_of_a_group",
        "groups_with_settings",
        "a_call_may_have_a_time_of_its_own",
        "a_timeout_may_be_an_argument",
        "the_methods_of_a_group",
        "works_that_python_drops",
        "compiled",
        "normalised_rows",
    ],
)
def test_programs_of_pytorch_work(what: str, tmp_path: Path) -> None:
    run_ranks(f"torch_programs.{what}", 2, tmp_path)


COMPILE = "from sennit.torch import extension; print(extension._compiled())"
COMPILER = """#!/bin/sh
echo compiled >> "{log}"
cat > "{log}.source"
sleep 0.5
while [ "$1" != -o ]; do shift; done
: > "$2"
"""


def compiling(folder: Path) -> subprocess.Popen[str]:
    """A process that needs the compiled backend, by the compilers and the cache in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", COMPILE],
        env={**os.environ, "PATH": f"{folder}:/bin:/usr/bin", "XDG_CACHE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_rank_compiles_the_backend_and_the_others_wait(tmp_path: Path) -> None:
    log = tmp_path / "log"
    compiler = tmp_path / "g++"
    compiler.write_text(COMPILER.format(log=log))
    compiler.chmod(0o755)
    (tmp_path / "sennit").mkdir()
    for key in range(5):
        (tmp_path / "sennit" / f"torch-{key}.so").touch()
    processes = [compiling(tmp_path) for _ in range(3)]
    answers = [process.communicate(timeout=100) for process in processes]
    assert len({out for out, _ in answers}) == 1
    assert Path(answers[0][0].strip()).is_file()
    assert log.read_text() == "compiled\n"
    assert '#include "backend.cpp"' in Path(f"{log}.source").read_text()
    assert sum("it takes about a minute" in err for _, err in answers) == 1
    assert len(list((tmp_path / "sennit").glob("torch-*.so"))) == 4


def test_an_error_names_what_hinders_the_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho no such header >&2\nexit 1\n")
    compiler.chmod(0o755)
    process = compiling(tmp_path)
    _, error = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "g++ does not compile it with PyTorch" in error
    assert "no such header" in error
    assert "Next: pip install torch" in error
    assert not list(tmp_path.glob("sennit/*.so"))


MAKE = """
import os, pwd, sys, sysconfig
import torch.distributed as dist
import sennit, sennit.torch
if sys.argv[1] == "no headers":
    sysconfig.get_path = lambda _: "/nowhere"
if sys.argv[1] == "no home":  # as of a user whom the system does not know
    del os.environ["XDG_CACHE_HOME"], os.environ["HOME"]
    pwd.getpwuid = lambda uid: {}[uid]
try:
    dist.init_process_group("sennit", store=dist.HashStore(), rank=0, world_size=1)
except sennit.Unsupported as error:
    assert isinstance(error, dist.DistBackendError)
    print(error)
"""


@pytest.mark.parametrize(
    ("place", "cache", "missing"),
    [
        ("as it is", "", ("no folder of PATH", "apt install g++")),
        ("as it is", "/proc/self", ("/proc/self/sennit", "set XDG_CACHE_HOME to a folder")),
        ("no home", "", ("the user has no home", "set XDG_CACHE_HOME to a folder")),
        ("no headers", "", ("/nowhere/Python.h is missing", "apt install python3-dev")),
    ],
)
def test_a_group_says_what_its_compilation_lacks(
    place: str, cache: str, missing: tuple[str, str], tmp_path: Path
) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", MAKE, place],
        env={**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / cache)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("the backend sennit of PyTorch cannot be compiled: ")
    assert all(words in answer.stdout for words in missing), answer.stdout


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
