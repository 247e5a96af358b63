"""The library with NCCL's interface is found, loaded in place of NCCL, and runs."""

from __future__ import annotations

import os
import subprocess
import sys

import sennit

# The loader must take it for libnccl.so.2, as it would for a program that needs that library.
PROGRAM = """
import ctypes, os, sys
nccl = ctypes.CDLL("libnccl.so.2")
version = ctypes.c_int()
assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
identity, comm = Id(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(identity)) == 0
assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, identity, 0) == 0
x = (ctypes.c_float * 3)(1, 2, 3)
y = (ctypes.c_float * 3)()
assert nccl.ncclAllReduce(x, y, ctypes.c_size_t(3), 7, 0, comm, None) == 0
assert nccl.ncclCommDestroy(comm) == 0
print(version.value, list(y))
"""


def run_program(**environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "SENNIT_DEVICE": "host", **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_preloaded_it_stands_in_for_nccl() -> None:
    assert run_program(LD_PRELOAD=str(sennit.nccl_library())) == "22809 [1.0, 2.0, 3.0]\n"


def test_it_is_found_by_its_name_in_the_library_path() -> None:
    folder = str(sennit.nccl_library().parent)
    assert run_program(LD_LIBRARY_PATH=folder) == "22809 [1.0, 2.0, 3.0]\n"
