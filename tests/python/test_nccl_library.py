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


# What vLLM's wrapper binds, in its way: a library of its own by absolute path, each function with
# its types. Two ranks, as threads.
BOUND = """
import ctypes, os, threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
call = [c_void_p, c_void_p, c_size_t, c_int]
message = [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]
functions = {
    "ncclGetErrorString": (c_char_p, [c_int]),
    "ncclGetVersion": (c_int, [POINTER(c_int)]),
    "ncclGetUniqueId": (c_int, [POINTER(Id)]),
    "ncclCommInitRank": (c_int, [POINTER(c_void_p), c_int, Id, c_int]),
    "ncclAllReduce": (c_int, [*call, c_int, c_void_p, c_void_p]),
    "ncclReduce": (c_int, [*call, c_int, c_int, c_void_p, c_void_p]),
    "ncclAllGather": (c_int, [*call, c_void_p, c_void_p]),
    "ncclReduceScatter": (c_int, [*call, c_int, c_void_p, c_void_p]),
    "ncclSend": (c_int, message),
    "ncclRecv": (c_int, message),
    "ncclBroadcast": (c_int, [*call, c_int, c_void_p, c_void_p]),
    "ncclCommDestroy": (c_int, [c_void_p]),
    "ncclGroupStart": (c_int, []),
    "ncclGroupEnd": (c_int, []),
    "ncclCommWindowRegister": (
        c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_void_p), c_int]),
    "ncclCommWindowDeregister": (c_int, [c_void_p, c_void_p]),
}
library = ctypes.CDLL(os.environ["VLLM_NCCL_SO_PATH"])
bound = {}
for name, (result, arguments) in functions.items():
    bound[name] = getattr(library, name)
    bound[name].restype, bound[name].argtypes = result, arguments
def do(name, *arguments):
    code = bound[name](*arguments)
    assert code == 0, bound["ncclGetErrorString"](code)
FLOAT, SUM = 7, 0
identity, found = Id(), {}
do("ncclGetUniqueId", byref(identity))
def run(rank):
    comm = c_void_p()
    do("ncclCommInitRank", byref(comm), 2, identity, rank)
    x, y = (ctypes.c_float * 2)(rank + 1, rank + 3), (ctypes.c_float * 4)()
    def then(name, *rest):
        do(name, x, y, *rest, comm, None)
        found.setdefault(name, {})[rank] = list(y)
    then("ncclAllReduce", 2, FLOAT, SUM)
    then("ncclAllGather", 2, FLOAT)
    then("ncclReduceScatter", 1, FLOAT, SUM)
    then("ncclBroadcast", 2, FLOAT, 1)
    then("ncclReduce", 2, FLOAT, SUM, 0)
    do("ncclGroupStart")
    do("ncclSend", x, 2, FLOAT, 1 - rank, comm, None)
    do("ncclRecv", y, 2, FLOAT, 1 - rank, comm, None)
    do("ncclGroupEnd")
    found.setdefault("ncclRecv", {})[rank] = list(y)
    do("ncclCommDestroy", comm)
ranks = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
for rank in ranks: rank.start()
for rank in ranks: rank.join()
version = c_int()
do("ncclGetVersion", byref(version))
print(version.value)
for name, of in found.items():
    print(name, [int(value) for value in of[0]], [int(value) for value in of[1]])
"""


def test_it_is_bound_by_its_path_as_vllm_binds_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOUND],
        env={
            **os.environ,
            "SENNIT_DEVICE": "host",
            "SENNIT_NCCL_FALLBACK_LIB": "none",
            "VLLM_NCCL_SO_PATH": str(sennit.nccl_library()),
        },
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "22809",
        "ncclAllReduce [3, 7, 0, 0] [3, 7, 0, 0]",
        "ncclAllGather [1, 3, 2, 4] [1, 3, 2, 4]",
        "ncclReduceScatter [3, 3, 2, 4] [7, 3, 2, 4]",
        "ncclBroadcast [2, 4, 2, 4] [2, 4, 2, 4]",
        "ncclReduce [3, 7, 2, 4] [2, 4, 2, 4]",
        "ncclRecv [2, 4, 2, 4] [1, 3, 2, 4]",
    ], done.stderr
