"""Times what a communicator of GPU ranks costs: its creation, its memory, its first calls.

    python3 bench/gpu/communicators.py --library LIB [--count N] [--ranks N]

One process a rank, as PyTorch has them; rank i works on GPU i. Each makes N communicators one after
the other and keeps them, as a program with many process groups does. One line of JSON for each
communicator and rank: the milliseconds of its creation, the MiB of GPU memory that it took (with
those of kernels that were loaded), and the microseconds until its first and second all_reduce of
4 KB had ended.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ELEMENTS = 1024  # of float32
FLOAT32, SUM = 0, 0


class UniqueId(ctypes.Structure):
    """sennit_unique_id_t."""

    _fields_ = [("bytes", ctypes.c_ubyte * 128)]


class Config(ctypes.Structure):
    """sennit_config_t, as far as `device`; later fields keep their defaults."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("join_timeout_s", ctypes.c_double),
        ("deadline_s", ctypes.c_double),
        ("paths", ctypes.c_char_p),
        ("slot_bytes", ctypes.c_int64),
        ("slots", ctypes.c_int32),
        ("ports", ctypes.c_int32),
        ("non_blocking", ctypes.c_int32),
        ("reproducible", ctypes.c_int32),
        ("device", ctypes.c_char_p),
    ]


class Cuda:
    """The few functions of the CUDA runtime that are needed, checked."""

    def __init__(self) -> None:
        """Opens the runtime."""
        self._library = ctypes.CDLL("libcudart.so.13")

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function that returns a cudaError_t."""
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} returned {code}")

    def free_mib(self) -> float:
        """Free memory of the current device, in MiB."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
        return free.value / 2**20

    def allocate(self, size: int) -> ctypes.c_void_p:
        """Device memory of so many bytes."""
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer


def checked(library: ctypes.CDLL, code: int) -> None:
    """Raises what a function of Sennit has failed with."""
    if code != 0:
        library.sennit_last_error_message.restype = ctypes.c_char_p
        raise RuntimeError(library.sennit_last_error_message().decode())


def run_rank(options: argparse.Namespace, rank: int) -> None:
    """Makes the communicators of one rank, and prints its lines."""
    cuda = Cuda()
    cuda.call("cudaSetDevice", rank)
    buffer = cuda.allocate(ELEMENTS * 4)
    free_at_first = cuda.free_mib()
    library = ctypes.CDLL(str(options.library.resolve()))
    for number in range(options.count):
        config = Config(struct_size=ctypes.sizeof(Config), device=f"cuda:{rank}".encode())
        job = UniqueId()
        text = f"{options.job}-{number}".encode()
        checked(library, library.sennit_unique_id_from_text(ctypes.byref(job), text))
        comm = ctypes.c_void_p()
        free, begin = cuda.free_mib(), time.perf_counter()
        code = library.sennit_comm_init_rank(
            ctypes.byref(comm), options.ranks, ctypes.byref(job), rank, ctypes.byref(config)
        )
        checked(library, code)
        row = {"rank": rank, "communicator": number}
        row["create_ms"] = round((time.perf_counter() - begin) * 1e3, 2)
        row["create_mib"] = round(free - cuda.free_mib(), 1)
        for call in ("first", "second"):
            begin = time.perf_counter()
            code = library.sennit_all_reduce(
                buffer, buffer, ctypes.c_size_t(ELEMENTS), FLOAT32, SUM, comm, None, None
            )
            checked(library, code)
            cuda.call("cudaStreamSynchronize", None)
            row[f"{call}_us"] = round((time.perf_counter() - begin) * 1e6, 1)
        row["all_mib"] = round(free_at_first - cuda.free_mib(), 1)
        sys.stdout.write(json.dumps(row) + "\n")  # in one piece: ranks share the output
        sys.stdout.flush()
    os._exit(0)  # what is measured is over, and ranks end together with their communicators


def main() -> int:
    """Starts the ranks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", type=Path, required=True, help="libsennit.so")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--job", default=f"communicators-{os.getpid()}")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        run_rank(options, options.rank)
    same = [sys.executable, __file__, "--library", str(options.library), "--job", options.job]
    same += ["--count", str(options.count), "--ranks", str(options.ranks)]
    ranks = [subprocess.Popen([*same, "--rank", str(rank)]) for rank in range(options.ranks)]
    return max(rank.wait() for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
