"""Failures arrive as one exception class a code, with the fields of the error contract."""

from __future__ import annotations

import math
import os
import pickle
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rank_functions
import sennit
from sennit import _core
from sennit.spawning import MOST_RANKS

ROOT = Path(__file__).resolve().parents[2]


def test_every_code_of_the_table_has_its_class() -> None:
    table = (ROOT / "include/sennit/codes.def").read_text()
    rows = re.findall(r"^SENNIT_CODE\((\w+), (\d+), \w+, (\w+),", table, re.MULTILINE)
    assert [(name, int(value), c_name) for c_name, value, name in rows] == list(_core.STATUS_CODES)
    for _, value, name in rows:
        if int(value) > 0:
            error = getattr(sennit, name)
            assert issubclass(error, sennit.Error)
            assert (error.code, error.__name__, error.__module__) == (int(value), name, "sennit")
    assert {name for _, _, name in rows if name != "OK"} <= set(sennit.__all__)


def test_the_stub_of_the_extension_names_every_class() -> None:
    stub = (ROOT / "frontends/python/sennit/_core.pyi").read_text()
    declared = set(re.findall(r"^class (\w+)\(Error\)", stub, re.MULTILINE))
    assert declared == {name for name, value, _ in _core.STATUS_CODES if value != 0}


def test_fields_survive_pickling() -> None:
    error = sennit.RankFailed("rank 3 died")
    error.blamed_ranks = (3,)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.blamed_ranks) == (sennit.RankFailed, "rank 3 died", (3,))
    assert (copy.rank, copy.root, copy.sequence, copy.evidence) == (None, None, 0, "")


def test_ranks_that_disagree_are_told_both_calls() -> None:
    errors: dict[int, sennit.Mismatch] = {}

    def rank(comm: sennit.Communicator) -> None:
        comm.barrier()
        try:
            comm.all_reduce(np.ones(8 if comm.rank else 16, np.float32), op="max")
        except sennit.Mismatch as error:
            errors[comm.rank] = error
        assert comm.failed

    start = time.monotonic()
    sennit.spawn(rank, 2, threads=True)
    assert time.monotonic() - start < 5
    assert sorted(errors) == [0, 1]
    error = errors[0]
    assert (error.op, error.sequence, error.count) == ("all_reduce", 2, 16)
    assert (error.dtype, error.reduce_op, error.comm) == ("float32", "max", "spawn")
    assert (error.rank, error.size, error.root) == (0, 2, None)
    assert "8" in str(error)
    assert "16" in str(error)
    assert error.evidence
    assert error.next


def test_a_rank_that_does_not_come_is_blamed_at_the_deadline() -> None:
    def rank(comm: sennit.Communicator) -> None:
        if comm.rank == 1:
            time.sleep(1.5)
            return
        start = time.monotonic()
        with pytest.raises(sennit.DeadlineExceeded) as caught:
            comm.barrier(deadline_s=0.5)
        assert 0.5 <= time.monotonic() - start < 1.5
        assert caught.value.blamed_ranks == (1,)
        assert caught.value.op == "barrier"
        assert caught.value.elapsed_s >= 0.5

    sennit.spawn(rank, 2, threads=True)


def test_survivors_of_a_killed_rank_blame_it() -> None:
    with pytest.raises(sennit.RankFailed) as caught:
        sennit.spawn(rank_functions.report_death_of_rank_one, 3, 1)
    assert caught.value.blamed_ranks == (1,)


def test_a_rank_that_never_joins_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENNIT_RANK", "0")
    monkeypatch.setenv("SENNIT_SIZE", "2")
    monkeypatch.setenv("SENNIT_KEY", "test-never-joins")
    with pytest.raises(sennit.JoinTimeout, match="1") as caught:
        sennit.init(timeout_s=0.3)
    assert caught.value.blamed_ranks == (1,)


def test_init_without_a_launcher_says_which_variables_are_missing() -> None:
    with pytest.raises(sennit.Error, match="SENNIT_RANK"):
        sennit.init()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda comm: comm.all_reduce(np.ones(2), op="mean"), "no reduce operator 'mean'"),
        (lambda comm: comm.broadcast(np.ones(2), root=7), "7"),
        (lambda comm: comm.send(np.ones(2), peer=7), "7"),
        (lambda comm: comm.send(np.ones(2), peer=2**70), f"{2**70} is no rank"),
        (lambda comm: comm.reduce(np.ones(2), root=-(2**40)), f"-{2**40} is no rank"),
        (lambda comm: comm.shrink([2**40]), f"shrink: {2**40} is no rank"),
        (lambda comm: comm.shrink([2]), "excluded rank 2 is not a rank of 2 ranks"),
        (lambda comm: comm.shrink([-1]), "excluded rank -1 is not a rank"),
        (lambda comm: comm.split(2**40), f"split: the color {2**40} has more than 32 bits"),
        (lambda comm: comm.split(0, key=-(2**40)), f"split: the key -{2**40} has more"),
        (lambda comm: comm.all_reduce(np.ones(2), algorithm="telepathy"), "telepathy"),
    ],
)
def test_arguments_that_are_wrong_by_themselves_are_refused_by_name(
    call: object, words: str
) -> None:
    with pytest.raises(sennit.Error, match=words):
        sennit.spawn(call, 2, threads=True)  # type: ignore[arg-type]


def test_as_many_ranks_are_allowed_as_can_join(monkeypatch: pytest.MonkeyPatch) -> None:
    more = MOST_RANKS + 1
    for threads in (True, False):
        with pytest.raises(sennit.InvalidArgument, match=f"at most {MOST_RANKS}, not {more}"):
            sennit.spawn(print, more, threads=threads)
    for name, value in [("RANK", "1"), ("SIZE", str(more)), ("KEY", "too many")]:
        monkeypatch.setenv(f"SENNIT_{name}", value)
    with pytest.raises(sennit.InvalidArgument, match=rf"{more}.* to {MOST_RANKS}"):
        sennit.init()


def test_a_time_that_is_given_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in [("RANK", "0"), ("SIZE", "1"), ("KEY", "a time that is given")]:
        monkeypatch.setenv(f"SENNIT_{name}", value)
    monkeypatch.setenv("SENNIT_JOIN_TIMEOUT_S", "-1")
    with pytest.raises(sennit.InvalidArgument, match="join timeout of -1"):
        sennit.init()
    with pytest.raises(sennit.InvalidArgument, match="more than 0, and finite"):
        sennit.init(timeout_s=math.inf)
    with sennit.init(timeout_s=60.0) as comm:  # the value that the variable would have by default
        assert comm.size == 1


@pytest.mark.parametrize("seconds", [math.inf, 1e300, 9.3e9, 0])
def test_limits_beyond_the_clock_are_no_limits(seconds: float) -> None:
    def rank(comm: sennit.Communicator) -> None:
        time.sleep(0.3 * comm.rank)
        comm.all_reduce(np.ones(3), deadline_s=seconds)
        time.sleep(0.3 * comm.rank)
        comm.all_reduce(np.ones(3))  # by the limit of the communicator
        work = comm.start.barrier()
        work.wait(seconds or None)

    sennit.spawn(rank, 2, threads=True, deadline_s=seconds)


@pytest.mark.parametrize(
    ("config", "variables", "words"),
    [
        ({}, {"SENNIT_SLOT_BYTES": "18446744073709551615"}, "slot_bytes in 1K..1G"),
        ({}, {"SENNIT_SLOT_BYTES": "9223372036854775808"}, "slot_bytes in 1K..1G"),
        ({}, {"SENNIT_SLOT_BYTES": "2G"}, "slot_bytes in 1K..1G"),
        ({"slot_bytes": -1}, {}, "slot_bytes in 1K..1G"),
        ({"device_blocks": 257}, {}, "device_blocks must lie in 1..256; it is 257"),
        ({"slots": -1}, {}, "slots in 1..4096"),
        ({"ports": -1}, {}, "ports must lie in 1..1024"),
        ({"path_policy": "fixed:cma"}, {}, "fixed:N for path N"),
    ],
)
def test_settings_out_of_range_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
    variables: dict[str, str],
    words: str,
) -> None:
    job = {"SENNIT_RANK": "0", "SENNIT_SIZE": "1", "SENNIT_KEY": "settings"}
    for name, value in {**job, **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(sennit.InvalidArgument) as caught:
        sennit.init(config=sennit.Config(**config))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"slots": "4"}, TypeError, "slots of a Config is a whole number, not '4'"),
        ({"slot_bytes": 2.5}, TypeError, "slot_bytes of a Config is a whole number, not 2.5"),
        ({"ports": 2**70}, sennit.InvalidArgument, f"ports of a Config is {2**70}: more than"),
        ({"codec": 8}, TypeError, "codec of a Config is text, not 8"),
        ({"paths": "shm\udcff"}, sennit.InvalidArgument, r"paths of a Config is 'shm\\udcff'"),
    ],
)
def test_settings_of_a_wrong_type_are_refused_by_name(
    config: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sennit.Config(**config)
    eight: Any = np.int64(8)
    assert sennit.Config(slots=eight).slots == 8


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"name": 3}, TypeError, "the name of a communicator is text, not 3"),
        ({"name": "a\udcff"}, sennit.InvalidArgument, r"name of a communicator is 'a\\udcff'"),
        ({"name": "a\0b"}, sennit.InvalidArgument, r"'a\\x00b': it must be UTF-8 without zero"),
        ({"device": 0}, TypeError, "device is text, not 0"),
    ],
)
def test_names_that_c_cannot_take_are_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        sennit.init(**arguments)


def test_messages_may_hold_names_that_are_no_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = {"SENNIT_RANK": "0", "SENNIT_SIZE": "1", "SENNIT_KEY": "settings"}
    for name, value in job.items():
        monkeypatch.setenv(name, value)
    file = os.fsdecode(b"/no/\xff")
    with pytest.raises(sennit.Error, match=r"/no/\\xff"):
        sennit.init(config=sennit.Config(tuning_table=Path(file)))
    monkeypatch.setenv("SENNIT_TUNING_TABLE", file)
    with pytest.raises(sennit.Error, match=r"/no/\\xff"):
        sennit.init()


def test_what_is_no_number_of_seconds_is_refused() -> None:
    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(sennit.InvalidArgument, match="nan seconds"):
            comm.barrier(deadline_s=math.nan)
        work = comm.start.barrier()
        with pytest.raises(sennit.InvalidArgument, match="nan seconds"):
            work.wait(math.nan)
        work.wait()

    sennit.spawn(rank, 1, threads=True)
    with pytest.raises(sennit.InvalidArgument, match="nan seconds"):
        sennit.spawn(rank, 1, threads=True, deadline_s=math.nan)
