"""Programs for MPI on two nodes, which are namespaces of this machine (tools/nodes.sh)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
import rails
import sennit
from installed_mpi import EXACT, ROUNDED, Installed, installed_mpi, kinds_of, share_of
from sennit.cli.rivals import mpi

if TYPE_CHECKING:
    from pathlib import Path

NODES = 2
CANNOT = 77
"""Status of the tool where the machine cannot have such nodes."""
NAMES = ("moves_at_every_root", "moves_of_different_blocks", "reductions_of_every_type")


@pytest.fixture(scope="module", params=mpi.NAMES)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    there = installed_mpi(request.param, tmp_path_factory.mktemp(request.param))
    there.compile_cases()
    return there


def start(
    installed: Installed, folder: Path, variables: dict[str, str], *program: str | Path
) -> subprocess.CompletedProcess[str]:
    """A program, by default the cases, with the library before the MPI."""
    program = program or (installed.folder / "program", *NAMES)
    own = {"LD_PRELOAD": str(sennit.mpi_library()), "SENNIT_MPI_STATS": "1", **variables}
    form = rails.FORMS[rails.TCP_FORMS[installed.mpi.name]]
    launcher = rails.launcher_of(form, installed.mpi, NODES, folder)
    words = [f"{name}={value}" for name, value in own.items()]
    run = subprocess.run(
        [rails.NODES_TOOL, "run", *launcher, "env", *words, *program],
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
    assert "(the first: less than 64 KiB between nodes, or a size" in run.stderr


def test_all_calls_are_the_mpis_where_nobody_asked(installed: Installed, tmp_path: Path) -> None:
    run = start(installed, tmp_path, {})
    assert run.stdout.count("passed ") == len(NAMES)
    assert share_of(run)[0] == 0
    assert "several network namespaces" in run.stderr


def test_rules_give_codecs_to_calls_between_nodes(installed: Installed, tmp_path: Path) -> None:
    variables = {"SENNIT_MPI_NODES": "sennit", "SENNIT_CODEC": "q16"}
    # Enough values for calls to run on the library, also Alltoallv, whose ranks ask each other.
    run = start(installed, tmp_path, variables, installed.compile_codecs(), "32768")
    if "install UCX" in run.stderr:
        pytest.skip("ucx: it cannot be opened")
    assert kinds_of(run) == dict.fromkeys(ROUNDED, "rounded") | dict.fromkeys(EXACT, "exact")
