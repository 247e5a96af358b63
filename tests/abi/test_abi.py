"""The C ABI of the installed library: a C11 program, and the symbols that leave it."""

import os
import subprocess
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"


@pytest.fixture(scope="module")
def library() -> Path:
    """The shared library inside the Python package."""
    package = find_spec("sennit")
    assert package is not None
    assert package.origin is not None
    found = sorted(Path(package.origin).parent.rglob("libsennit.so.*"))
    assert found, f"no libsennit.so.* in {Path(package.origin).parent}"
    return found[0]


def test_a_c11_program_runs_on_the_shared_library_alone(library: Path, tmp_path: Path) -> None:
    program = tmp_path / "abi_test"
    compiler = os.environ.get("CC", "cc")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    source = str(HERE / "abi_test.c")
    linking = [str(library), f"-Wl,-rpath,{library.parent}", "-o", str(program)]
    subprocess.run([compiler, "-std=c11", *warnings, f"-I{INCLUDE}", source, *linking], check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout) == (0, "ok\n")


def test_programs_load_the_library_by_a_name_with_its_version(library: Path) -> None:
    # Until 1.0 a minor version may change the ABI.
    major, minor, _ = version("sennit").split(".")
    named = f"libsennit.so.{major}.{minor}" if major == "0" else f"libsennit.so.{major}"
    listing = subprocess.run(
        ["readelf", "--dynamic", str(library)], capture_output=True, text=True, check=True
    )
    assert f"soname: [{named}]" in listing.stdout
    assert (library.parent / named).exists()


def test_exactly_the_listed_symbols_leave_the_library(library: Path) -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=posix", str(library)],
        capture_output=True,
        text=True,
        check=True,
    )
    symbols = sorted(line.split()[0] for line in listing.stdout.splitlines())
    expected = (HERE / "symbols.txt").read_text(encoding="utf-8").split()
    assert symbols == expected, "add new symbols to tests/abi/symbols.txt; never remove one"
