"""The library that stands before an MPI, under each MPI that `make rivals` installs.

The programs know nothing of the library: it is preloaded.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import sennit
from installed_mpi import (
    EXACT,
    HERE,
    ROOT,
    ROUNDED,
    Installed,
    installed_mpi,
    kinds_of,
    share_of,
)
from sennit.cli.rivals import mpi

MPI4PY = ROOT / ".rivals" / "mpi4py"
# How messages between the ranks go: also where an MPI cannot read the other's memory, and needs
# both ranks for each piece of a message.
TRANSPORTS = {
    "mpich": {
        "default": {},
        "without CMA": {"MPIR_CVAR_CH4_CMA_ENABLE": "0"},
        "network": {"MPIR_CVAR_NOLOCAL": "1"},
    },
    "openmpi": {
        "default": {},
        "without CMA": {"OMPI_MCA_smsc": "^cma"},
        "network": {"OMPI_MCA_btl": "self,tcp", "OMPI_MCA_pml": "ob1"},
    },
}


# MPICH's programs may be compiled for the standard ABI as well.
@pytest.fixture(scope="module", params=[*mpi.NAMES, "mpich_abi"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    there = installed_mpi(request.param, tmp_path_factory.mktemp(request.param))
    there.compile_cases()
    return there


def test_all_cases_pass(installed: Installed) -> None:
    run = installed.start(installed.folder / "program")
    lines = run.stdout.splitlines()
    assert [line for line in lines if line.startswith("passed ")] == lines[:-1]
    # The callback in MPI_Finalize came through.
    assert (len(lines), lines[-1]) == (38, "callbacks 1")
    taken, passed_on = share_of(run)
    assert taken > 5000
    assert 0 < passed_on < taken


def test_three_ranks_pass_all_cases(installed: Installed) -> None:
    # More ranks than cores take long where an MPI only spins, so the cases of many calls are left.
    names = (
        "communicators_of_any_making",
        "every_nonblocking_form",
        "moves_at_every_root",
        "moves_of_different_blocks",
        "operators_of_the_program",
        "operators_that_do_not_commute",
        "pairs_of_every_type",
        "scans_of_numbers",
        "types_for_each_rank",
        "types_with_gaps",
    )
    run = installed.start(installed.folder / "program", *names, ranks=3)
    assert sorted(run.stdout.splitlines()) == ["callbacks 1", *(f"passed {n}" for n in names)]
    assert share_of(run)[0] > 50


@pytest.mark.parametrize("transport", ["default", "without CMA", "network"])
def test_messages_move_while_a_rank_waits_in_the_library(
    installed: Installed, transport: str
) -> None:
    run = installed.start(
        installed.folder / "program",
        "messages_move_in_a_barrier",
        "nonblocking_beside_blocking",
        "nonblocking_calls_end_while_a_rank_receives",
        "large_nonblocking_calls_end_while_a_rank_receives",
        environment=TRANSPORTS[installed.mpi.name][transport],
    )
    assert run.stdout.count("passed ") == 4, run.stdout
    assert share_of(run)[0] > 50


@pytest.mark.parametrize(
    ("module", "request_type"), [("mpi", "integer"), ("mpi_f08", "type(MPI_Request)")]
)
def test_calls_of_fortran_run_on_the_library(
    installed: Installed, module: str, request_type: str
) -> None:
    compiler = installed.mpi.prefix / "bin" / f"mpifort{installed.suffix}"
    if not compiler.exists():
        pytest.skip(f"fortran: needs an MPI with Fortran's bindings; there is no {compiler}")
    program = installed.compile(
        f"fortran_{module}",
        "-fallow-argument-mismatch",  # MPICH's module mpi does not know of buffers of any type
        f"-DMODULE={module}",
        f"-DREQUEST={request_type}",
        HERE / "fortran.F90",
        compiler="mpifort",
    )
    run = installed.start(program)
    assert run.stdout == "passed fortran\n", run.stderr
    assert share_of(run)[0] >= 4  # not every MPI lets a nonblocking call be taken


def test_off_takes_nothing(installed: Installed) -> None:
    program = installed.folder / "program"
    run = installed.start(program, "moves_in_place", environment={"SENNIT_MPI": "off"})
    assert "passed moves_in_place" in run.stdout
    assert share_of(run)[0] == 0
    assert "SENNIT_MPI=off" in run.stderr


def test_named_calls_are_passed_on(installed: Installed) -> None:
    program = installed.folder / "program"
    share = share_of(installed.start(program, "moves_in_place"))
    passed = {"SENNIT_MPI_PASS": "Allgather,Alltoall"}
    fewer = share_of(installed.start(program, "moves_in_place", environment=passed))
    assert fewer == (share[0] - 2, share[1] + 2)


def test_ranks_with_other_settings_are_passed_on_by_all(installed: Installed) -> None:
    # The value that rank 1 has.
    script = (
        "r=${PMI_RANK:-$OMPI_COMM_WORLD_RANK};"
        'SENNIT_MPI_PASS=$([ "$r" = 1 ] && echo Bcast) exec "$0" "$@"'
    )
    run = installed.start("sh", "-c", script, installed.folder / "program", "moves_in_place")
    assert "passed moves_in_place" in run.stdout
    assert share_of(run)[0] == 0
    assert "different values of SENNIT_MPI_AFTER, SENNIT_MPI_NODES or SENNIT_MPI_PASS" in run.stderr


ALL_CODED = dict.fromkeys(ROUNDED, "rounded") | dict.fromkeys(EXACT, "exact")


# Of three ranks one has no blocks in Alltoallv, and MPI_BYTE as their type.
@pytest.mark.parametrize("ranks", [2, 3])
def test_rules_give_codecs_to_calls(installed: Installed, ranks: int) -> None:
    program = installed.compile_codecs()
    run = installed.start(program, ranks=ranks, environment={"SENNIT_CODEC": "q16"})
    assert kinds_of(run) == ALL_CODED
    exact = installed.start(program, ranks=ranks)
    assert kinds_of(exact) == dict.fromkeys(ALL_CODED, "exact")


def test_rules_for_sizes_see_the_largest_block(installed: Installed) -> None:
    # A block has 16 KB; of double complex 64.
    rules = "all_to_all>=32K=q16,broadcast=zfp:24"
    run = installed.start(installed.compile_codecs(), environment={"SENNIT_CODEC": rules})
    rounded = {"bcast", "alltoallw"}
    assert kinds_of(run) == {
        call: "rounded" if call in rounded else "exact" for call in (*ROUNDED, *EXACT)
    }


def test_ranks_without_the_rules_of_others_are_passed_on_by_all(installed: Installed) -> None:
    script = (
        "r=${PMI_RANK:-$OMPI_COMM_WORLD_RANK};"
        '[ "$r" = 1 ] || export SENNIT_CODEC=q8; exec "$0" "$@"'
    )
    run = installed.start("sh", "-c", script, installed.compile_codecs())
    assert kinds_of(run) == dict.fromkeys(ALL_CODED, "exact")
    assert share_of(run)[0] == 0
    assert "SENNIT_CODEC on some alone" in run.stderr


def test_the_log_says_which_communicators_run_on_the_library(installed: Installed) -> None:
    run = installed.start(
        installed.folder / "program",
        "communicators_of_any_making",
        environment={"SENNIT_DEBUG": "INFO"},
    )
    assert "a communicator of 2 ranks runs on Sennit" in run.stderr
    assert re.search("a communicator of [12] ranks is passed on: one rank", run.stderr)


@pytest.mark.parametrize(
    "case",
    [
        "blocks_of_different_lengths",
        "blocks_that_do_not_fit",
        "memory_that_is_not_there",
        "one_rank_that_cannot_pack",
        "types_that_were_not_committed",
    ],
)
def test_failures_come_to_the_error_handler(installed: Installed, case: str) -> None:
    run = installed.start(installed.folder / "program", case)
    assert f"passed {case}" in run.stdout
    # It has to have run here: one call of a communicator at least.
    assert share_of(run)[0] > 0


# The MPIs that call back while they wait, so that nonblocking calls run on the library.
@pytest.mark.parametrize("installed", mpi.NAMES, indirect=True)
@pytest.mark.parametrize(
    "case",
    [
        "errors_after_the_communicator",
        "one_rank_that_cannot_pack_later",
        "persistent_calls_that_fail",
    ],
)
def test_failures_of_nonblocking_calls_come_to_the_wait(installed: Installed, case: str) -> None:
    run = installed.start(installed.folder / "program", case)
    assert f"passed {case}" in run.stdout
    assert share_of(run)[0] > 0


def test_a_request_that_nobody_waits_for_does_not_keep_finalize(installed: Installed) -> None:
    run = installed.start(installed.folder / "program", "requests_that_nobody_waits_for")
    assert "callbacks 1" in run.stdout


@pytest.mark.timeout(310)
@pytest.mark.parametrize("installed", mpi.NAMES, indirect=True)
def test_elements_may_have_more_than_two_gibibytes(installed: Installed) -> None:
    needed_gib = 12
    available = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    if available is None or int(available[1]) < needed_gib << 20:
        pytest.skip(f"memory: needs {needed_gib} GiB")
    run = installed.start(installed.folder / "program", "elements_of_gigabytes", timeout_s=300)
    assert "passed elements_of_gigabytes" in run.stdout


def test_the_first_call_that_is_passed_on_has_its_reason(installed: Installed) -> None:
    run = installed.start(installed.folder / "program", "large_blocks_of_different_lengths")
    assert "passed large_blocks_of_different_lengths" in run.stdout
    assert "(the first: a large reduce_scatter of different counts)" in run.stderr


def test_a_profiler_keeps_its_calls(installed: Installed) -> None:
    profiler = installed.compile("profiler.so", "-shared", "-fPIC", HERE / "profiler.c")
    run = installed.start(
        installed.folder / "program", "moves_at_every_root", preload=f":{profiler}"
    )
    # Six broadcasts of each rank; Finalize is the profiler's as well, and comes back here.
    assert "profiler 6" in run.stdout
    assert "passed moves_at_every_root" in run.stdout
    assert share_of(run)[0] > 20


def test_constants_are_those_of_the_mpi(installed: Installed) -> None:
    facts = installed.compile("facts", "-std=c++20", HERE / "abi_facts.cpp", compiler="mpicxx")
    run = subprocess.run([facts], check=False, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "")


# Seconds on a machine that has nothing else to do; minutes where MPIs spin on busy cores.
@pytest.mark.timeout(610)
# Its wheel has no module for the standard ABI.
@pytest.mark.parametrize("installed", mpi.NAMES, indirect=True)
def test_mpi4py_passes_its_collectives(installed: Installed) -> None:
    if not (MPI4PY / "test" / "main.py").exists():
        pytest.skip("mpi: needs mpi4py (make rivals)")
    library = next(iter((installed.mpi.prefix / "lib").glob("libmpi.so.*")))
    run = installed.start(
        sys.executable,
        MPI4PY / "test" / "main.py",
        "--no-builddir",
        "-i",
        "test_cco|test_op$|test_request|test_comm$|test_threads|test_attributes",
        check=False,
        timeout_s=600,
        environment={
            "PYTHONPATH": os.pathsep.join((str(MPI4PY), *filter(None, sys.path))),
            "MPI4PY_LIBMPI": str(library),
        },
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"Ran (\d{3}) tests", run.stderr), run.stderr
    assert share_of(run)[0] > 20000


def test_the_preloaded_library_needs_libc_alone() -> None:
    # What it needed besides would come before the program's own, also where that is older.
    printed = subprocess.run(
        ["readelf", "-d", sennit.mpi_library()], check=True, capture_output=True, text=True
    ).stdout
    assert re.findall(r"NEEDED.*\[(.*)\]", printed) == ["libc.so.6"]


def test_without_an_mpi_it_says_so() -> None:
    program = "import ctypes; ctypes.CDLL(None).MPI_Barrier(0)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_PRELOAD": str(sennit.mpi_library())},
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0
    assert "no library of this process defines PMPI_Init" in run.stderr


def test_sennit_run_says_what_ran_where(installed: Installed, tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    # Before the launcher, which passes the environment on to the ranks of this node.
    run = subprocess.run(
        [
            *(sys.executable, "-m", "sennit", "run", "--mpi-only", "--json", str(file), "--"),
            *(*installed.mpi.launcher(2), str(installed.folder / "program")),
            *("moves_at_every_root", "operators_of_the_program"),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    counts = json.loads(file.read_text())
    calls = {row["call"]: row for row in counts["calls"]}
    assert counts["processes"] == 2
    assert calls["MPI_Bcast"]["taken"]["calls"] > 0
    assert calls["MPI_Bcast"]["taken"]["bytes"] > 0
    assert "MPI_Bcast" in run.stderr
    for row in counts["calls"]:
        assert bool(row["why"]) == bool(row["passed_on"]["calls"]), row


def test_suites_of_others_are_counted_without_the_library_and_with_it(
    installed: Installed, tmp_path: Path
) -> None:
    program = installed.folder / "program"
    suite = tmp_path / "suite.txt"
    suite.write_text(
        "passes: passed (moves_in_place|it)\n"
        f"{program} moves_in_place\n"
        "seconds: (12.5) seconds\n"
        'sh -c "echo it took 12.5 seconds, and passed it"\n'
        f"{program} moves_at_every_root\n"
        'sh -c "echo passed it; test -z $LD_PRELOAD"\n'
    )
    subprocess.run(
        [
            *(sys.executable, ROOT / "bench/mpi/suites.py", installed.mpi.name),
            *(f"suite={suite}", "--out", tmp_path / "out.json"),
        ],
        env={
            **os.environ,
            f"SENNIT_{installed.mpi.name.upper()}_PREFIX": str(installed.mpi.prefix),
        },
        timeout=110,
        check=True,
    )
    (row,) = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert (row["suite"], row["mpi"], row["ranks"]) == ("suite", installed.mpi.name, 2)
    assert (row["without"]["passed"], row["with"]["passed"]) == (3, 2)
    assert row["without"]["failed"] == ["program moves_at_every_root"]
    assert [failed.split()[0] for failed in row["with"]["failed"]] == ["program", "sh"]
    assert row["without"]["seconds"] > 12.5
    assert row["calls"]["on_sennit"] > 0
