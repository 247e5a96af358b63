"""Programs for MPI on two nodes, which are namespaces of this machine (tools/nodes.sh)."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import sennit
from installed_mpi import CASES, HERE, ROOT, Installed, installed_mpi, share_of
from sennit.cli.rivals import mpi

if TYPE_CHECKING:
    from pathlib import Path

NODES_TOOL = ROOT / "tools/nodes.sh"
CANNOT = 77
"""Status of the tool where the machine cannot have such nodes."""
CARDS = "rail0,rail1"
HOSTS = ("node0:2,node1:2", 4)
NAMES = ("moves_at_every_root", "moves_of_different_blocks", "reductions_of_every_type")


@pytest.fixture(scope="module", params=mpi.NAMES)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    there = installed_mpi(request.param, tmp_path_factory.mktemp(request.param))
    there.compile("program", *(HERE / f"{name}.c" for name in CASES), "-lpthread")
    return there


def launcher(installed: Installed, variables: dict[str, str], folder: Path) -> list[str]:
    """Of two ranks on each node, for node 0."""
    hosts, ranks = HOSTS
    prefix = installed.mpi.prefix / "bin"
    if installed.mpi.name == "openmpi":
        return [
            str(prefix / "mpirun"),
            *installed.mpi.settings(ranks + (os.cpu_count() or 1)),
            *("--prtemca", "plm_ssh_agent", f"{NODES_TOOL} rsh"),
            *("--prtemca", "prte_if_include", "eth0", "--host", hosts, "-n", str(ranks)),
            *("--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"),
            *("--mca", "pml", "ob1", "--mca", "btl", "tcp,sm,self"),
            *("--mca", "btl_tcp_if_include", CARDS),
            *(word for pair in variables.items() for word in ("-x", "=".join(pair))),
        ]
    shell = folder / "rsh"
    # It is called as ssh is, with -x before the host.
    shell.write_text(f'#!/bin/sh\n[ "$1" != -x ] || shift\nexec {NODES_TOOL} rsh "$@"\n')
    shell.chmod(0o755)
    return [
        str(prefix / "mpiexec"),
        *("-launcher", "ssh", "-launcher-exec", str(shell), "-iface", "eth0"),
        *("-hosts", hosts, "-n", str(ranks)),
        *(word for pair in variables.items() for word in ("-genv", *pair)),
    ]


def start(
    installed: Installed, folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The cases, with the library before the MPI."""
    own = {
        "LD_PRELOAD": str(sennit.mpi_library()),
        "SENNIT_MPI_STATS": "1",
        "SENNIT_RAILS": CARDS,
        **variables,
    }
    # A process has one UCX: where the MPI has its own, that.
    of_mpi = installed.mpi.prefix.resolve() / "lib" / installed.mpi.name / "libucp.so.0"
    if installed.mpi.name == "mpich" and of_mpi.exists():
        own |= {"SENNIT_UCX_LIB": str(of_mpi), "UCX_TLS": "tcp,self,sm", "UCX_NET_DEVICES": CARDS}
    command = [*launcher(installed, own, folder), str(installed.folder / "program"), *NAMES]
    run = subprocess.run(
        [NODES_TOOL, "run", NODES_TOOL, "exec", "0", *command],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    if run.returncode == CANNOT:
        pytest.skip(f"namespaces: {run.stderr.strip()}")
    assert run.returncode == 0, run.stdout + run.stderr
    return run


def test_large_calls_run_on_the_library(installed: Installed, tmp_path: Path) -> None:
    run = start(installed, tmp_path, {"SENNIT_MPI_NODES": "sennit"})
    if "install UCX" in run.stderr:
        pytest.skip("ucx: it cannot be opened")
    assert sorted(run.stdout.splitlines()) == ["callbacks 1", *(f"passed {n}" for n in NAMES)]
    taken, passed_on = share_of(run)
    assert taken > 10
    assert passed_on > 0
    assert "a call over several nodes of little" in run.stderr


def test_all_calls_are_the_mpis_where_nobody_asked(installed: Installed, tmp_path: Path) -> None:
    run = start(installed, tmp_path, {})
    assert run.stdout.count("passed ") == len(NAMES)
    assert share_of(run)[0] == 0
    assert "several network namespaces" in run.stderr
