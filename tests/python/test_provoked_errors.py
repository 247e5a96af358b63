"""Errors that users provoke: each says what to do, in one style, and none is a traceback.

The texts that are looked for are those that say what to do, or what there is to choose from.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import sennit
from sennit import cli, schedules
from sennit.cli.failure import EXIT_USAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COLLECTIVES = "all_reduce, reduce, broadcast, all_gather"
ALGORITHMS = "there are: ring, recursive_doubling"
MACHINES = "there are: ac922, frontera-rtx, h100-x1, h200-cluster"
NO_SIZE = "write 8, 64K, 1M or 2G"
RANK_RANGE = "in the range 1<=x<=4096"
H200 = "simulate all_reduce --machine h200-x4 --bytes 1M"

COMMANDS = {
    "nonsense": "`sennit --help` lists what it takes",
    "benhc": "Did you mean",
    "--nonsense": "`sennit --help` lists",
    "bench nonsense": COLLECTIVES,
    "bench --ranks 0": RANK_RANGE,
    "bench --ranks -1": RANK_RANGE,
    "bench --ranks 5000": RANK_RANGE,
    "bench --ranks two": "`sennit bench --help` lists",
    "bench --rank 2": "Did you mean '--ranks'",
    "bench -g 8": "pass --ranks",
    "bench -b 1K -e 8": "raise -e or lower -b",
    "bench -e 0": "raise -e or lower -b",
    "bench -b x": NO_SIZE,
    "bench -b 4Q": NO_SIZE,
    "bench -b 1e6": NO_SIZE,
    "bench -f 1": "in the range x>=2",
    "bench -n 0": "in the range x>=1",
    "bench -w -1": "in the range x>=0",
    "bench -d nonsense": "none of float32, float64",
    "bench -o nonsense": "not one of 'sum', 'prod'",
    "bench -d bfloat16 -o bitwise_and": "docs/numerics.md has the table",
    "bench --ranks 2 -e 64 --tile-bytes 3": "the least is 64",
    "bench --ranks 2 -e 64 --algorithm rign": ALGORITHMS,
    "bench --protocol nonsense": "not one of 'slots', 'direct'",
    "bench --ranks 2 -e 64 --protocol direct": "use slots",
    "bench --protocol ll": "--protocol of host ranks is slots or direct",
    "bench --path shm": "Did you mean one of",
    "bench --ranks 2 -e 64 --paths nonsense": "there are",
    "bench --codec nonsense": "there are: zfp:4",
    "bench barrier --codec q8": "which has no values",
    "bench --ranks 2 -e 64 --root 9": "the ranks are 0 to 1",
    "bench broadcast --root x": "neither a rank nor 'rotate'",
    "bench send_recv --ranks 2 --pair 0:5": "the 2 ranks are 0 to 1",
    "bench send_recv --pair 0": "two ranks such as 0:1",
    "bench send_recv --pair 0:0": "two ranks such as 0:1",
    "bench send_recv --window 0": "in the range x>=1",
    "bench --window 8": "sennit bench send_recv --window",
    "bench --pair 0:1": "sennit bench send_recv --pair",
    "bench broadcast --bidirectional": "sennit bench send_recv --bidirectional",
    "bench --json no/dir/x": "cannot write no/dir/x: No such file",
    "bench --plot no/dir/x.png": "cannot write no/dir/x.png: No such file",
    "bench --plot x.xyz": "does not end in one of",
    "bench --plot -": "does not end in one of",
    "bench --executor nonsense": "not one of 'host', 'cuda'",
    "bench --max-seconds 0": "in the range x>0",
    "bench --schedule no/file.json": "cannot read no/file.json: No such file",
    "bench --schedule open.json": "open.json:1:2: the text ends, expected JSON",
    "bench --schedule empty": "empty:1:1: the text ends, expected JSON",
    "bench --schedule word.json": "word.json:1:1: found 'w', expected JSON",
    "bench --schedule list.json": "expected an object",
    "bench all_reduce --schedule open.json": "leave one out",
    "bench --sm-budget 2": "is for --executor cuda",
    "bench --share 4": "is for --executor cuda",
    "bench ddp nonsense": "not one of 'vgg16'",
    "bench ddp --bucket-mb 0": "in the range x>=1",
    "bench ddp --against nonsense": "not one of 'gloo'",
    "bench ddp --json no/x": "cannot write no/x",
    "verify nonsense": COLLECTIVES,
    "verify --ranks many": "expected a number or first:last within 1:4096",
    "verify --ranks 5:2": "expected a number or first:last",
    "verify --ranks 2:": "expected a number or first:last",
    "verify --ranks 1:100000": "within 1:4096",
    "verify barrier --collective gather": "take one",
    "verify --algorithm nonsense": "`sennit algorithms` lists all",
    "verify --protocol nonsense": "not one of 'slots', 'direct'",
    "verify --codec nonsense": "there are: zfp:4",
    "verify --schedule no/file": "cannot read no/file",
    "verify --schedule bytes": "it is no UTF-8",
    "algorithms nonsense": COLLECTIVES,
    "show": "name a COLLECTIVE, or a --schedule FILE.json",
    "show nonsense": COLLECTIVES,
    "show all_reduce --algorithm nonsense": ALGORITHMS,
    "show all_reduce --ranks 0": "in the range x>=1",
    "show all_reduce --ranks 100000": "expected 1 to 512",
    "show all_reduce --root 9": "but all_reduce has no root; leave it out",
    "show broadcast --root 9": "expected 0 to 3",
    "show broadcast --root -1": "in the range x>=0",
    "show all_reduce --picture x.png": "does not end in .svg",
    "show all_reduce --picture no/x.svg": "cannot write no/x.svg",
    "show all_reduce --algorithm ring --radix 3": "but all_reduce ring takes none",
    "show all_reduce --algorithm ring --groups 0,1/2,3": "but all_reduce ring takes none",
    "show all_reduce --algorithm ring --ranks 48 --picture x.svg": "take fewer ranks",
    "show all_reduce --algorithm hierarchical --groups 0,1/5,3": "is 5, expected 0 to 3",
    "show all_reduce --algorithm hierarchical --groups x": "is not like 0,1/2,3",
    "show all_reduce --algorithm hierarchical --groups 0,0/1,1": "is in 2 groups, not in one",
    "show broadcast --algorithm k_nomial --radix 1": "in the range x>=2",
    "show --schedule open.json": "open.json:1:2",
    "show all_reduce --schedule open.json": "leave one out",
    "machine nonsense": "`sennit machine --help` lists",
    "machine --file no/file.machine": "cannot read no/file.machine",
    "machine --file bad.machine": "bad.machine:1: expected 'machine NAME TEXT'",
    "machine --file nonsense": MACHINES,
    "machine --picture x.png": "does not end in .svg",
    "simulate all_reduce": "Missing option '--machine'",
    "simulate all_reduce --machine nonsense --bytes 1M": MACHINES,
    "simulate all_reduce --machine h200-x4": "Missing option '--bytes'",
    "simulate all_reduce --machine h200-x4 --bytes -5": NO_SIZE,
    f"{H200} --algorithm nonsense": ALGORITHMS,
    f"{H200} --path nonsense": "there are: shm, cma, nvlink",
    f"{H200} --protocol nonsense": "there are: slots, direct_get",
    f"{H200} --tile-bytes 0": "Did you mean one of",
    f"{H200} --ranks-per-gpu 0": "in the range x>=1",
    f"{H200} --trace no/x.json": "cannot write no/x.json",
    f"{H200} --picture x.png": "does not end in .svg",
    "explain": "Missing argument 'COLLECTIVE'",
    "explain nonsense --bytes 1M": COLLECTIVES,
    "explain all_reduce": "Missing option '--bytes'",
    "explain all_reduce --bytes x": NO_SIZE,
    "explain all_reduce --bytes 1M --ranks 0": "in the range x>=1",
    "explain all_reduce --bytes 1M --machine nonsense": MACHINES,
    "explain all_reduce --bytes 1M --codec q8": "name a --machine",
    "explain all_reduce --bytes 1M --table no/file": "'no/file' does not exist",
    "explain all_reduce --bytes 1M --table bad.tuning": "bad.tuning:2:1: 'foo' is no kind of line",
    "reproduce nonsense": "`sennit reproduce --help` lists",
    "reproduce 9": "in the range 1<=x<=5",
    "reproduce --measured no/file": "'no/file' does not exist",
    "reproduce --measured open.json": "take what `sennit bench --executor cuda --json` writes",
    "reproduce --measured list.json": "take what `sennit bench --executor cuda --json` writes",
    "tune nonsense": COLLECTIVES,
    "tune --ranks 1": "is no list such as 2,4,8",
    "tune --out no/dir/t": "cannot write no/dir/t",
    "tune --check no/file": "'no/file' does not exist",
    "tune --check bad.tuning --out x": "leave --out away",
    "tune --rows open.json": "--rows is for --executor cuda",
    "tune --executor cuda --ranks 2,4": "is one number",
    "tune --executor cuda scatter": "measures all_reduce, all_gather",
    "tune --executor cuda --check bad.tuning": "--check is for tables of host ranks",
    "codec": "Missing argument 'FILE.npy'",
    "codec no/file.npy": "cannot read no/file.npy",
    "codec word.json": "write it with numpy.save",
    "codec empty": "write it with numpy.save",
    "codec texts.npy": "write an array of floats with numpy.save",
    "codec none.npy": "has no values",
    "codec few.npy --codec zfp:99": "not one of 'zfp:4'",
    "run": "Missing argument",
    "run --nonsense -- true": "a program comes behind --",
    "run --nccl-only --mpi-only -- true": "leave nothing",
    "run --trace no/x -- true": "cannot write no/x",
    "info nonsense": "`sennit info --help` lists",
    "info --json no/x": "cannot write no/x",
    "doctor nonsense": "`sennit doctor --help` lists",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files that are not what commands want."""
    (tmp_path / "open.json").write_text("{")
    (tmp_path / "word.json").write_text("words")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "empty").touch()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x01")
    (tmp_path / "bad.machine").write_text("machine x\n")
    (tmp_path / "bad.tuning").write_text("tuning 1\nfoo\n")
    np.save(tmp_path / "texts.npy", np.array(["a", "b"]))
    np.save(tmp_path / "none.npy", np.zeros(0, np.float32))
    np.save(tmp_path / "few.npy", np.ones(4, np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_bad_command_says_what_to_do(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(shlex.split(line)) == EXIT_USAGE
    printed = capsys.readouterr()
    assert COMMANDS[line] in printed.err
    assert "Traceback" not in printed.err + printed.out
    assert all(text.startswith(("sennit: ", "Next: ")) for text in printed.err.splitlines())


VARIABLES = {
    "SENNIT_PATHS=nonsense": "there are",
    "SENNIT_SLOT_BYTES=x": "allowed",
    "SENNIT_SLOTS=-1": "allowed",
    "SENNIT_PORTS=many": "allowed",
    "SENNIT_DEADLINE_S=soon": "allowed",
    "SENNIT_PATH_POLICY=nonsense": "least_loaded",
    "SENNIT_CODEC=nonsense": "there are: zfp:4",
    "SENNIT_TUNING_TABLE=/no/file": "/no/file",
}


@pytest.mark.parametrize("setting", VARIABLES)
def test_a_bad_variable_says_what_is_allowed(
    setting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    assert cli.run(["bench", "--ranks", "2", "-e", "8", "-n", "1"]) in {2, 3}
    printed = capsys.readouterr().err
    assert VARIABLES[setting] in printed
    assert name in printed
    assert "Traceback" not in printed


def few() -> Any:
    return np.ones(4, np.float32)


def read_only() -> Any:
    x = few()
    x.flags.writeable = False
    return x


CALLS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "nothing": (lambda c: c.all_reduce(None), sennit.InvalidArgument, "pass a NumPy array"),
    "a text": (lambda c: c.all_reduce("abc"), sennit.InvalidArgument, "pass a NumPy array"),
    "a list": (lambda c: c.all_reduce([1, 2]), sennit.InvalidArgument, "pass a NumPy array"),
    "objects": (
        lambda c: c.all_reduce(np.array([None])),
        sennit.InvalidArgument,
        "its elements are of type object",
    ),
    "strides": (
        lambda c: c.all_reduce(np.ones(8)[::2]),
        sennit.InvalidArgument,
        "pass numpy.ascontiguousarray(x)",
    ),
    "big endian": (
        lambda c: c.all_reduce(np.ones(4, ">f4")),
        sennit.InvalidArgument,
        "pass x.astype(x.dtype.newbyteorder('='))",
    ),
    "an operator": (
        lambda c: c.all_reduce(few(), op="nonsense"),
        sennit.InvalidArgument,
        "there are sum, prod",
    ),
    "bits of floats": (
        lambda c: c.all_reduce(few(), op="bitwise_and"),
        sennit.Unsupported,
        "there are: sum, prod",
    ),
    "a short out": (
        lambda c: c.all_reduce(few(), out=np.ones(3, np.float32)),
        sennit.InvalidArgument,
        "the call writes 4 (as many as x)",
    ),
    "another type": (
        lambda c: c.all_reduce(few(), out=np.ones(4)),
        sennit.InvalidArgument,
        "x is float32, but out is float64",
    ),
    "a read-only out": (
        lambda c: c.all_reduce(few(), out=read_only()),
        sennit.InvalidArgument,
        "pass an array that can be written",
    ),
    "an algorithm": (
        lambda c: c.all_reduce(few(), algorithm="rign"),
        sennit.InvalidArgument,
        ALGORITHMS,
    ),
    "an algorithm that is no text": (
        lambda c: c.all_reduce(few(), algorithm=3),
        TypeError,
        "algorithm is text, not 3",
    ),
    "a codec": (
        lambda c: c.all_reduce(few(), codec="q7"),
        sennit.InvalidArgument,
        "there are: zfp:4",
    ),
    "a codec of integers": (
        lambda c: c.all_reduce(np.ones(4, np.int32), codec="q8"),
        sennit.Unsupported,
        "it takes float32",
    ),
    "a lossy reproducible call": (
        lambda c: c.all_reduce(few(), codec="q8", reproducible=True),
        sennit.Unsupported,
        "take another codec or none",
    ),
    "no number of seconds": (
        lambda c: c.barrier(deadline_s=float("nan")),
        sennit.InvalidArgument,
        "pass 0 for no limit",
    ),
    "a text of seconds": (
        lambda c: c.barrier(deadline_s="1"),
        TypeError,
        "a deadline is a number of seconds, not '1'",
    ),
    "a schedule that is none": (
        lambda c: c.all_reduce(few(), schedule="ring"),
        sennit.InvalidArgument,
        "expected what sennit.schedules.Builder.build",
    ),
    "a schedule and an algorithm": (
        lambda c: c.all_reduce(
            few(), schedule=schedules.known("all_reduce", "ring", 2), algorithm="ring"
        ),
        sennit.InvalidArgument,
        "pass one of them",
    ),
    "a schedule for others": (
        lambda c: c.all_reduce(few(), schedule=schedules.known("all_reduce", "ring", 4)),
        sennit.Unsupported,
        "this schedule is for 4 ranks",
    ),
    "a stream": (
        lambda c: c.all_reduce(few(), stream="x"),
        sennit.InvalidArgument,
        "pass a stream of PyTorch",
    ),
    "a root": (
        lambda c: c.broadcast(few(), root=9),
        sennit.InvalidArgument,
        "root 9 is not a rank; the ranks are 0 to 0",
    ),
    "a peer": (
        lambda c: c.send(few(), 9),
        sennit.InvalidArgument,
        "peer 9 is not a rank; the ranks are 0 to 0",
    ),
    "a tag": (
        lambda c: c.send(few(), 0, tag=-1),
        sennit.InvalidArgument,
        "tags go from 0 to 2147483647",
    ),
    "no counts": (
        lambda c: c.all_gather_v(few(), counts=None),
        sennit.InvalidArgument,
        "needs counts, one for each rank",
    ),
    "counts below 0": (
        lambda c: c.all_gather_v(few(), counts=[-4]),
        sennit.InvalidArgument,
        "cannot be negative",
    ),
    "too many counts": (
        lambda c: c.all_gather_v(few(), counts=[2, 2]),
        sennit.InvalidArgument,
        "2 counts for 1 ranks",
    ),
}


@pytest.fixture(scope="module")
def alone() -> Callable[[Callable[[Any], Any]], list[Any]]:
    """Runs a function of a communicator of one rank."""
    return lambda call: sennit.spawn(call, 1, threads=True)


@pytest.mark.parametrize("what", CALLS)
def test_a_bad_call_says_what_to_do(
    what: str, alone: Callable[[Callable[[Any], Any]], list[Any]]
) -> None:
    call, kind, remedy = CALLS[what]

    def rank(comm: sennit.Communicator) -> None:
        with pytest.raises(kind) as error:
            call(comm)
        assert remedy in str(error.value)
        assert comm.all_reduce(few())[0] == 1  # it works on

    alone(rank)


def test_the_tables_are_as_long_as_they_should_be() -> None:
    assert len(COMMANDS) + len(VARIABLES) + len(CALLS) >= 150
