"""The command `sennit`: help, exit codes, tables and JSON."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sennit import cli
from sennit.cli import doctor, plot
from sennit.cli.launcher import place_in_job
from sennit.cli.names import COLLECTIVE

Command = Callable[..., "subprocess.CompletedProcess[str]"]

SNAPSHOTS = Path(__file__).resolve().parent / "snapshots"
COMMANDS = (
    *("bench", "verify", "algorithms", "show", "simulate", "explain", "reproduce"),
    *("tune", "codec", "machine", "run", "info", "doctor", "bench ddp"),
)


TWO = ("--ranks", "2", "-e", "64")
RING = ("show", "all_reduce", "--algorithm", "ring")
ON_H200 = ("--machine", "h200-x4", "--bytes", "1M", "--algorithm", "ring")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_the_committed_text(sennit_command: Command, command: str) -> None:
    answer = sennit_command(*command.split(), "--help")
    assert answer.returncode == 0
    name = command.replace(" ", "-") or "sennit"
    assert answer.stdout == (SNAPSHOTS / f"help-{name}.txt").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["bench", "nonsense"], "'nonsense' is none of"),
        (["bench", "allredcue"], "did you mean all_reduce?"),
        (["bench", "ddp", "nonsense"], "'nonsense' is not one of"),
        (["bench", "ddp", "--against", "nccl"], "nccl is no rival with --executor host"),
        (["bench", "-b", "eight"], "'eight' is no size"),
        (["bench", "-d", "float128"], "'float128' is none of float32"),
        (["bench", "-r", "first"], "'first' is neither a rank nor 'rotate'"),
        (["bench", "send_recv", "--pair", "1:1"], "'1:1' is not of the form A:B"),
        (["bench", "send_recv", "--ranks", "2", "--pair", "0:2"], "the 2 ranks are 0 to 1"),
        (["bench", "-b", "1K", "-e", "8"], "begin at 1K (-b) and end at 8 (-e)"),
        (["bench", "-g", "8"], "pass --ranks, the number of all"),
        (["bench", "--ranks", "5000"], "5000 is not in the range"),
        (["bench", "-d", "bfloat16", "-o", "bitwise_and"], "bfloat16 has no operator bitwise_and"),
        (["bench", "broadcast", *TWO, "-r", "5"], "root 5 is not a rank; the ranks are 0 to 1"),
        (["bench", *TWO, "--tile-bytes", "3"], "a tile of 3 bytes is too small"),
        (["bench", *TWO, "--protocol", "direct"], "protocol direct cannot carry it; use slots"),
        (["bench", "--json", "/no/dir/x"], "cannot write /no/dir/x"),
        (["bench", "--plot", "/no/dir/x.png"], "cannot write /no/dir/x.png"),
        (["bench", "--plot", "x.xyz"], "x.xyz does not end in one of"),
        (["bench", "--plot", "-"], "- does not end in one of"),
        (["tune", "--out", "/no/dir/t"], "cannot write /no/dir/t"),
        (["show", "nonsense"], "'nonsense' is none of"),
        (["verify", "barrier", "--collective", "gather"], "take one"),
        (
            ["show", "all_reduce", "--root", "9"],
            "--root is 9, but all_reduce has no root; leave it out",
        ),
        (["show", "all_reduce", "--picture", "x.png"], "x.png does not end in .svg"),
        ([*RING, "--ranks", "48", "--picture", "/tmp/x.svg"], "too many steps to draw"),
        ([*RING, "--radix", "3"], "--radix is given, but all_reduce ring takes none"),
        ([*RING, "--groups", "0,1/2,3"], "--groups is given, but all_reduce ring takes none"),
        (["simulate", "all_reduce", *ON_H200, "--radix", "3"], "--radix is given"),
        (["simulate", "all_reduce", *ON_H200, "--trace", "/no/x.json"], "cannot write /no/x.json"),
        (["machine", "--file", "/no/file.machine"], "cannot read /no/file.machine"),
        (["verify", "--ranks", "many"], "many"),
        (["verify", "--ranks", "5:2"], "--ranks is '5:2', expected"),
    ],
)
def test_bad_usage_ends_with_2_and_says_what_is_wrong(
    sennit_command: Command, arguments: list[str], words: str
) -> None:
    answer = sennit_command(*arguments)
    assert answer.returncode == 2, answer.stderr
    assert words in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--executor", "cuda"], "--executor cuda needs a build with CUDA"),
        (["--mode", "graph"], "--mode graph needs a CUDA device"),
        (["--mode", "stream"], "--mode stream needs a CUDA device"),
        (["--against", "nccl"], "no adapter for the rival nccl"),
    ],
)
def test_what_is_not_here_ends_with_4_and_is_named(
    sennit_command: Command, arguments: list[str], words: str
) -> None:
    answer = sennit_command("bench", *arguments)
    assert answer.returncode == 4
    assert words in answer.stderr
    assert "Next: " in answer.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "remedy"),
    [("click", [], "click rich"), ("matplotlib", ["bench"], "'sennit[plot]'")],
)
def test_a_missing_package_is_named(module: str, arguments: list[str], remedy: str) -> None:
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *rest: None if name == {module!r} else "
        "find(name, *rest)\n"
        f"sys.argv = ['sennit', *{arguments!r}] + (['--plot', 'x.png'] if {arguments!r} else [])\n"
        "from sennit.__main__ import main\n"
        "sys.exit(main())\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 4
    assert f"pip install {remedy}" in answer.stderr


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("sennit ver", "verify"),
        ("sennit verify all_r", "all_reduce"),
        ("sennit verify --ra", "--ranks"),
    ],
)
def test_a_shell_completes(sennit_command: Command, typed: str, completed: str) -> None:
    answer = sennit_command(
        _SENNIT_COMPLETE="bash_complete", COMP_WORDS=typed, COMP_CWORD=str(typed.count(" "))
    )
    assert answer.returncode == 0, answer.stderr
    assert f"plain,{completed}" in answer.stdout.splitlines()


def test_verify_proves_and_counts(sennit_command: Command) -> None:
    answer = sennit_command("verify", "--collective", "all_reduce", "--ranks", "1:4", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["instances"] > 0
    assert (document["failed"], document["failures"]) == (0, [])
    assert f"{document['instances']} instances, 0 failed" in answer.stderr


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("allreduce", "all_reduce"),
        ("AllReduce", "all_reduce"),
        ("all-reduce", "all_reduce"),
        ("ncclReduceScatter", "reduce_scatter"),
        ("MPI_Bcast", "broadcast"),
        ("osu_allgather", "all_gather"),
        ("alltoall_perf", "all_to_all"),
        ("sendrecv", "send_recv"),
    ],
)
def test_collectives_may_have_the_names_of_others(written: str, name: str) -> None:
    assert COLLECTIVE.convert(written, None, None) == name


def test_verify_has_a_row_an_algorithm(sennit_command: Command) -> None:
    answer = sennit_command("verify", "barrier", "--ranks", "2:5")
    assert answer.returncode == 0
    cells = [[cell.strip() for cell in line.split("│")] for line in answer.stdout.splitlines()]
    assert ["", "barrier", "dissemination", "2 to 5", "4", "", "", ""] in cells
    assert ["", "barrier", "tree", "2 to 5", "16", "", "", ""] in cells


def test_explain_says_what_a_codec_gains(sennit_command: Command) -> None:
    asked = ("explain", "all_to_all", "--bytes", "32M", "--codec", "q8")
    there = sennit_command(*asked, "--machine", "h200-x2", "--path", "host")
    assert there.stdout.splitlines()[2].startswith("by codec q8: 8704K in the place of 32M")
    here = sennit_command(*asked)
    assert here.returncode == 2
    assert "--codec are for ranks of a described machine" in here.stderr


def test_explain_begins_with_the_choice(sennit_command: Command) -> None:
    here = sennit_command("explain", "all_reduce", "--bytes", "1M").stdout
    assert here.startswith("choice: two_shot by slots\n")
    assert "│ > │ two_shot" in here
    there = sennit_command("explain", "all_reduce", "--bytes", "1M", "--machine", "h200-x4").stdout
    assert there.startswith("choice of GPU ranks: two_shot by ll128 over nvlink, predicted ")


def test_algorithms_lists_two_or_more_for_all_reduce(sennit_command: Command) -> None:
    answer = sennit_command("algorithms", "all_reduce", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    rows = json.loads(answer.stdout)["algorithms"]
    assert {"ring", "recursive_doubling"} <= {row["name"] for row in rows}
    assert {row["collective"] for row in rows} == {"all_reduce"}
    assert "ring" in answer.stderr


def test_show_prints_and_draws(sennit_command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "ring.svg"
    answer = sennit_command(
        "show", "all_reduce", "--algorithm", "ring", "--ranks", "3", "--picture", str(picture)
    )
    assert answer.returncode == 0, answer.stderr
    assert "rank 2" in answer.stdout
    assert picture.read_text().lstrip().startswith(("<svg", "<?xml"))


def test_show_takes_groups(sennit_command: Command) -> None:
    show = ("show", "all_gather", "--algorithm", "multi_rail", "--ranks", "4", "--groups")
    pairs = sennit_command(*show, "0,1/2,3")
    assert pairs.returncode == 0, pairs.stderr
    assert pairs.stdout != sennit_command(*show, "0,1,2,3").stdout
    for wrong, words in (("0,1;2,3", "is not like 0,1/2,3"), ("0,1/2", "rank 3 is in 0 groups")):
        answer = sennit_command(*show, wrong)
        assert answer.returncode == 2, wrong
        assert words in answer.stderr


def test_show_without_a_place_for_the_picture_is_bad_usage(
    sennit_command: Command, tmp_path: Path
) -> None:
    answer = sennit_command("show", "all_reduce", "--picture", str(tmp_path / "no" / "x.svg"))
    assert answer.returncode == 2
    assert "cannot write" in answer.stderr


def test_machine_describes_this_one(sennit_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    answer = sennit_command("machine", "--json", str(file), SENNIT_RAILS="lo")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(file.read_text())
    assert document["cores"] >= 1
    assert [card["device"] for card in document["network"]["cards"]] == ["lo"]
    assert document["name"] in answer.stdout


def test_info_shows_the_value_that_a_variable_has(sennit_command: Command) -> None:
    answer = sennit_command("info", "--json", "-", SENNIT_DEADLINE_S="7", SENNIT_NO_SUCH="1")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    variables = {row["name"]: row for row in document["variables"]}
    assert variables["SENNIT_DEADLINE_S"]["value"] == "7"
    assert variables["SENNIT_DEADLINE_S"]["default"] == "30"
    assert document["unknown_variables"] == ["SENNIT_NO_SUCH"]
    assert "SENNIT_NO_SUCH is set" in answer.stderr


def test_doctor_sees_limits_that_are_too_low(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {resource.RLIMIT_NOFILE: (64, 64), resource.RLIMIT_MEMLOCK: (-1, -1)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(os, "getloadavg", lambda: (1000.0, 0.0, 0.0))
    monkeypatch.setattr(doctor, "_CGROUP", tmp_path)

    def found() -> dict[str, bool]:
        cli.run(["doctor", "--json", "-"])
        checks = json.loads(capsys.readouterr().out)["checks"]
        return {check["name"]: check["ok"] for check in checks}

    of_container = tmp_path / "cpu.max"
    of_container.write_text("100000 100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    before = found()
    assert not before["256 open files"]
    assert before["locked memory"]
    assert not before["idle cores"]
    assert not before["cores of the container"]
    of_container.write_text("max 100000\n")
    assert found()["cores of the container"]


def test_doctor_names_a_remedy_for_what_is_missing(sennit_command: Command) -> None:
    answer = sennit_command("doctor", "--json", "-")
    checks = json.loads(answer.stdout)["checks"]
    assert {"rank program", "process_vm_readv", "memfd_create", "nvcc", "NCCL", "matplotlib"} <= {
        check["name"] for check in checks
    }
    is_broken = any(check["essential"] and not check["ok"] for check in checks)
    assert answer.returncode == (4 if is_broken else 0)
    for check in checks:
        assert check["feature"]
        assert check["ok"] or check["remedy"] in " ".join(answer.stderr.split("\n"))


def test_what_is_no_text_is_shown_and_ends_no_command(
    sennit_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / os.fsdecode(b"no text \xff.machine")
    file.write_bytes(b"machine no text \xff\n")
    answer = sennit_command("machine", "--file", str(file))
    assert answer.returncode == 2
    assert "it is no UTF-8" in answer.stderr
    file.write_text("machine here\n")
    answer = sennit_command("machine", "--file", str(file), "--json", str(tmp_path / "x.json"))
    assert answer.returncode in (0, 2)
    answer = sennit_command("show", "all_reduce", "--algorithm", os.fsdecode(b"\xff"))
    assert answer.returncode == 2
    assert "no algorithm" in answer.stderr
    answer = sennit_command("info", SENNIT_KEY=os.fsdecode(b"\xff"))
    assert answer.returncode == 0
    answer = sennit_command("bench", *TWO, SENNIT_DEADLINE_S=os.fsdecode(b"\xff"))
    assert answer.returncode == 2
    assert "a number of seconds" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_output_that_cannot_be_written_is_no_wrong_data() -> None:
    command = [sys.executable, "-m", "sennit", "info"]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 5
    assert answer.stderr == ("sennit: the output could not be written: No space left on device\n")
    reading, writing = os.pipe()
    os.close(reading)
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (141, "")


def test_ctrl_c_ends_a_long_computation_at_once() -> None:
    handler = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = (
        f"{handler}; import sys; sys.argv = ['sennit', 'verify', '--ranks', '1:64'];"
        "from sennit.__main__ import main; sys.exit(main())"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 5
    assert process.returncode == 130
    assert errors == "sennit: interrupted\n"


SLURM = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize(
    ("changes", "is_place"),
    [({}, True), ({"SLURM_NTASKS": "1"}, False), ({"SLURM_STEP_ID": ""}, False)],
)
def test_a_shell_that_slurm_started_is_no_rank(changes: dict[str, str], is_place: bool) -> None:
    assert (place_in_job({**SLURM, **changes}) is not None) == is_place


def test_a_place_that_is_no_number_is_bad_usage(sennit_command: Command) -> None:
    answer = sennit_command("bench", **{**SLURM, "SLURM_PROCID": "first"})
    assert answer.returncode == 2
    assert "SLURM_PROCID=first" in answer.stderr


def test_lines_of_a_plot_are_told_apart() -> None:
    styles = [tuple(plot._style(index).values()) for index in range(36)]
    assert len(set(styles)) == 36
    row = {"collective": "all_reduce", "dtype": "int32", "ranks": 2, "bytes": 8}
    rows = [{**row, "op": op} for op in ("sum", "min", "max")]
    assert list(plot._series(rows)) == [
        "all_reduce int32, 2 ranks",
        "all_reduce int32 min, 2 ranks",
        "all_reduce int32 max, 2 ranks",
    ]
