"""Ranks to which something happens, for the failure matrix."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import errno
import importlib.util
import os
import resource
import signal
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sennit

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

HAS_TORCH = importlib.util.find_spec("torch") is not None
if HAS_TORCH:
    import sennit.torch
    import torch
    import torch.distributed as dist

RANKS = 3
VICTIM = 1
COUNT = 1 << 15  # elements of a call
JOIN_S = 1.0
DEADLINE_S = 1.0
_IN_CALL_S = 0.2  # by then the others are in the call


class Outcome(NamedTuple):
    """What a rank that lives reports of the end."""

    error: str  # name of the class; empty: none
    blamed: tuple[int, ...]
    text: str
    ended_at: float  # of the clock that all processes share


def _raise(_: Any) -> None:
    raise RuntimeError("what the program does wrong")


def _interrupt_in_a_call(comm: Any) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(_IN_CALL_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    if comm is None:
        dist.recv(torch.zeros(1), 0)
    else:
        comm.recv(np.zeros(1), 0)


def _close_descriptors(_: Any) -> None:
    # None is left for what comes, and those that are there stay.
    used = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (used - 1, used - 1))


def _refusing(name: str, error: int) -> Callable[[Any], None]:
    def refuse(_: Any) -> None:
        if not refuse_system_call(name, error):
            raise NoFilter(name)

    return refuse


class NoFilter(Exception):
    """The kernel takes no filter of system calls here."""


REFUSED = {
    "no process_vm_readv": _refusing("process_vm_readv", errno.EPERM),
    "no memfd_create": _refusing("memfd_create", errno.ENOSYS),
    "no pidfd_open": _refusing("pidfd_open", errno.EPERM),
}

EVENTS: dict[str, Callable[[Any], Any]] = {
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "term": lambda _: os.kill(os.getpid(), signal.SIGTERM),
    "leave": lambda _: os._exit(0),
    "exit": lambda _: sys.exit(0),
    "exception": _raise,
    "interrupt": _interrupt_in_a_call,
    "no descriptors": _close_descriptors,
    **REFUSED,
}

# By a path that needs the call, where it is one for messages.
VARIABLES = {"no process_vm_readv": {"SENNIT_PATHS": "cma"}}


class PythonRank:
    """A rank of the package `sennit`."""

    def __init__(self, rank: int, place: str) -> None:
        """Join."""
        os.environ |= {"SENNIT_RANK": str(rank), "SENNIT_SIZE": str(RANKS), "SENNIT_KEY": place}
        self.comm = sennit.init(timeout_s=JOIN_S, deadline_s=DEADLINE_S)

    def meet(self) -> None:
        """Wait for all."""
        self.comm.barrier()

    def split(self) -> None:
        """Make a group of all."""
        self.comm.split(0)

    def call(self) -> None:
        """Make a call that waits."""
        self.comm.all_gather(np.ones(COUNT))

    def wait(self) -> None:
        """Start a call, and wait for it."""
        self.comm.start.all_gather(np.ones(COUNT)).wait()

    def destroy(self) -> None:
        """Leave."""
        self.comm.destroy()


class TorchRank:
    """A rank of torch.distributed."""

    def __init__(self, rank: int, place: str) -> None:
        """Join."""
        torch.set_num_threads(1)
        dist.init_process_group(
            "sennit",
            init_method=f"file://{place}",
            rank=rank,
            world_size=RANKS,
            timeout=datetime.timedelta(seconds=JOIN_S),
        )
        self.comm = None

    def meet(self) -> None:
        """Wait for all."""
        dist.barrier()

    def split(self) -> None:
        """Make a group of all."""
        dist.new_group(list(range(RANKS)), timeout=datetime.timedelta(seconds=JOIN_S))

    def call(self) -> None:
        """Make a call that waits."""
        dist.all_gather_into_tensor(torch.empty(RANKS * COUNT), torch.ones(COUNT))

    def wait(self) -> None:
        """Start a call, and wait for it."""
        work = dist.all_gather_into_tensor(
            torch.empty(RANKS * COUNT), torch.ones(COUNT), async_op=True
        )
        assert work is not None
        work.wait()

    def destroy(self) -> None:
        """Leave."""
        dist.destroy_process_group()


FRONT_ENDS: dict[str, Any] = {"python": PythonRank, "torch": TorchRank}


def be_a_rank(
    out: Connection, front_end: str, moment: str, event: str, rank: int, place: str, began: Any
) -> None:
    """Join, meet, and call; to the victim the event happens before that."""

    def happen(comm: Any) -> None:
        began.value = time.monotonic()
        EVENTS[event](comm)

    outcome: tuple[str, tuple[int, ...], str] = ("", (), "")
    os.environ |= VARIABLES.get(event, {})
    try:
        if moment == "join" and rank == VICTIM:
            happen(None)
        member = FRONT_ENDS[front_end](rank, place)
        with member.comm or contextlib.nullcontext():
            if moment != "join":
                member.meet()
            # In a call the others are there first; those who leave come after the event.
            if moment != "join" and (rank == VICTIM) != (moment == "destroy"):
                time.sleep(_IN_CALL_S)
            if moment != "join" and rank == VICTIM:
                happen(member.comm)
            if moment != "join":
                getattr(member, moment)()
    except sennit.Error as error:
        outcome = (type(error).__name__, error.blamed_ranks, str(error))
    except BaseException as error:
        if rank == VICTIM and not isinstance(error, NoFilter):
            raise
        outcome = (type(error).__name__, (), repr(error))
    out.send(Outcome(*outcome, time.monotonic()))
    out.close()


# Refused system calls: a filter of the kernel answers them with an error.

_NUMBERS = {"x86_64": {"memfd_create": 319, "pidfd_open": 434, "process_vm_readv": 310}}
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_FILTER = 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse_system_call(name: str, error: int) -> bool:
    """Let the kernel refuse a system call from now on; False where it cannot be asked."""
    number = _NUMBERS.get(os.uname().machine, {}).get(name)
    if number is None:
        return False
    load, equal, give = 0x20, 0x15, 0x06  # of linux/filter.h
    allow, refuse = 0x7FFF0000, 0x00050000 | error
    steps = [(load, 0, 0, 0), (equal, 0, 1, number), (give, 0, 0, refuse), (give, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return bool(
        prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        and prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0
    )


def be_a_rank_somewhere_odd(
    out: Connection,
    front_end: str,
    rank: int,
    place: str,
    variables: dict[bytes, bytes],
    refused: tuple[str, int],
) -> None:
    """Join with these variables, of which some may be no text, and make calls of every kind."""
    outcome: tuple[str, tuple[int, ...], str] = ("", (), "")
    try:
        for name, value in variables.items():
            os.environb[name] = value
        if refused[0] and not refuse_system_call(*refused):
            outcome = ("skipped", (), "the kernel takes no filter")
        else:
            member = FRONT_ENDS[front_end](rank, place)
            for act in (member.meet, member.split, member.call, member.wait, member.destroy):
                act()
    except sennit.Error as error:
        outcome = (type(error).__name__, error.blamed_ranks, str(error))
    except BaseException as error:
        outcome = (type(error).__name__, (), repr(error))
    out.send(Outcome(*outcome, time.monotonic()))
    out.close()
