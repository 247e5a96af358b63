"""Buffers in GPU memory before each MPI, of fake_cuda.h or of real GPUs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sennit
from installed_mpi import HERE, ROOT, Installed, installed_mpi
from sennit.cli.rivals import mpi

if TYPE_CHECKING:
    from collections.abc import Sequence

GPU_BUFFERS = re.compile(r"GPU buffers: (\d+) calls by GPUs, (\d+) through host memory")
GPUS = [*Path("/dev").glob("nvidia[0-9]*")]
DEVICE = (HERE / "device.c", HERE / "device_passed.c")
# Of device.c.
BLOCKING = (
    "reductions",
    "types_with_gaps",
    "blocks_of_different_lengths",
    "passed_on",
    "messages",
    "local_calls",
    "neighbours",
    "one_sided_calls",
)
NONBLOCKING = (
    "nonblocking",
    "persistent",
    "nonblocking_messages",
    "persistent_messages",
    "matched_and_exchanged_messages",
    "nonblocking_neighbours",
)


@pytest.fixture(scope="module", params=[*mpi.NAMES, "mpich_abi"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    there = installed_mpi(request.param, tmp_path_factory.mktemp(request.param))
    driver = there.folder / "libcuda.so.1"
    words = ("-shared", "-fPIC", "-O1", f"-Wl,-soname,{driver.name}", HERE / "fake_cuda.c", "-ldl")
    subprocess.run(["gcc", *words, "-o", driver], check=True)
    linked = (driver, f"-Wl,-rpath,{there.folder}")
    there.compile("device", *DEVICE, *linked)
    there.compile("late", HERE / "late.c", "-ldl")
    replaced = ("-DFAKE_CUDA_REPLACES_MALLOC", "-include", HERE / "fake_cuda.h")
    there.compile_cases(*replaced, *linked)
    return there


def gpu_buffers(run: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """How many calls of rank 0 GPUs ran, and how many had copies in host memory."""
    found = GPU_BUFFERS.search(run.stderr)
    assert found, run.stderr
    return int(found[1]), int(found[2])


def passed(run: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.split()[1] for line in run.stdout.splitlines() if line.startswith("passed ")]


def has_callbacks(installed: Installed) -> bool:
    """Whether the MPI calls back while it waits, so that nonblocking calls can be finished."""
    return not installed.suffix


def test_memory_that_only_copies_reach(installed: Installed) -> None:
    names: Sequence[str] = (*BLOCKING, *(NONBLOCKING if has_callbacks(installed) else ()))
    run = installed.start(installed.folder / "device", *names)
    assert sorted(passed(run)) == sorted(names), run.stdout
    assert gpu_buffers(run) == (0, 49 if has_callbacks(installed) else 27)


def test_files_take_memory_that_only_copies_reach(installed: Installed, tmp_path: Path) -> None:
    program = installed.folder / "device"
    run = installed.start(program, "files", environment={"DEVICE_FILE": str(tmp_path / "file")})
    assert passed(run) == ["files"], run.stdout
    assert gpu_buffers(run) == (0, 2)


def test_cuda_may_come_after_the_first_calls(installed: Installed) -> None:
    run = installed.start(installed.folder / "late", installed.folder / "libcuda.so.1")
    assert passed(run) == ["late", "late"], run.stdout
    assert gpu_buffers(run) == (0, 1)


@pytest.mark.parametrize("installed", ["mpich_abi"], indirect=True)
def test_a_nonblocking_call_that_nobody_can_finish_is_refused(installed: Installed) -> None:
    run = installed.start(installed.folder / "device", "nonblocking", check=False)
    assert run.returncode != 0
    assert "MPI_Iallreduce has a buffer in GPU memory, which the MPI cannot read" in run.stderr


# All that its cases allocate is GPU memory, what they declare is host memory.
@pytest.mark.parametrize("installed", mpi.NAMES, indirect=True)
def test_all_cases_pass_with_buffers_in_gpu_memory(installed: Installed) -> None:
    run = installed.start(installed.folder / "program", environment={"FAKE_CUDA_OPEN": "1"})
    assert len(passed(run)) == 37, run.stdout
    assert run.stdout.splitlines()[-1] == "callbacks 1"
    assert gpu_buffers(run)[1] > 1000


def fake_gpus() -> Path:
    """The library on fake GPUs."""
    libraries = list(ROOT.glob("build/*/tests/fake_gpus/libsennit.so"))
    if not libraries:
        pytest.skip("fakes: no fake GPUs, which a build of the tests without CUDA has")
    return max(libraries, key=lambda file: file.stat().st_mtime)


def test_gpus_run_calls_where_all_ranks_have_buffers_there(installed: Installed) -> None:
    preload = f":{fake_gpus()}"
    run = installed.start(installed.folder / "device", "bytes_on_gpus", preload=preload)
    assert passed(run) == ["bytes_on_gpus"], run.stdout
    # The ten of Alltoallv are in place; the broadcasts come from the memory of this host.
    assert gpu_buffers(run) == (15, 10)


def test_calls_of_nccl_come_between_those_of_mpi(installed: Installed) -> None:
    preload = f":{fake_gpus()}:{sennit.nccl_library()}"
    linked = (installed.folder / "libcuda.so.1", f"-Wl,-rpath,{installed.folder}")
    installed.compile("with_nccl", HERE / "with_nccl.c", sennit.nccl_library(), *linked)
    run = installed.start(installed.folder / "with_nccl", preload=preload)
    assert passed(run) == ["with_nccl"], run.stdout


def test_the_mpi_says_that_buffers_may_be_in_gpu_memory(installed: Installed) -> None:
    program = installed.compile("query", HERE / "query.c", "-ldl")
    places = [str(installed.folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    with_driver = {"LD_LIBRARY_PATH": ":".join(places)}
    assert installed.start(program, environment=with_driver).stdout == "cuda 1 1\n"
    assert installed.start(program).stdout == ("cuda 1 1\n" if GPUS else "cuda 0 0\n")
    off = with_driver | {"SENNIT_MPI": "off"}
    assert installed.start(program, environment=off).stdout == "cuda 0 0\n"


needs_gpus = pytest.mark.skipif(not GPUS, reason="gpu2: needs a build with CUDA and a GPU")


@needs_gpus
def test_real_gpus_run_calls(installed: Installed) -> None:
    installed.compile("real", *DEVICE, HERE / "real_cuda.c", "-l:libcuda.so.1")
    names = [*BLOCKING, "bytes_on_gpus", *(NONBLOCKING if has_callbacks(installed) else ())]
    run = installed.start(installed.folder / "real", *names)
    assert sorted(passed(run)) == sorted(names), run.stdout
    by_gpus, through_host = gpu_buffers(run)
    assert by_gpus > 0
    assert through_host > 0


@needs_gpus
def test_calls_of_nccl_come_between_those_of_mpi_on_real_gpus(installed: Installed) -> None:
    nccl = sennit.nccl_library()
    sources = (HERE / "with_nccl.c", HERE / "real_cuda.c")
    installed.compile("real_with_nccl", *sources, nccl, "-l:libcuda.so.1")
    run = installed.start(installed.folder / "real_with_nccl", preload=f":{nccl}")
    assert passed(run) == ["with_nccl"], run.stdout
