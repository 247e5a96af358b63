"""The command `sennit`: help, exit codes, tables and JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]

SNAPSHOTS = Path(__file__).resolve().parent / "snapshots"
COMMANDS = (
    *("bench", "verify", "algorithms", "show", "simulate", "explain", "reproduce"),
    *("tune", "codec", "machine", "info", "doctor", "bench ddp"),
)


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
        (["bench", "nonsense"], "'nonsense' is not one of"),
        (["bench", "ddp", "nonsense"], "'nonsense' is not one of"),
        (["bench", "ddp", "--against", "nccl"], "nccl is no rival with --executor host"),
        (["bench", "-b", "eight"], "'eight' is no size"),
        (["bench", "-d", "float128"], "'float128' is none of float32"),
        (["bench", "-r", "first"], "'first' is neither a rank nor 'rotate'"),
        (["bench", "send_recv", "--pair", "1:1"], "'1:1' is not of the form A:B"),
        (["bench", "send_recv", "--ranks", "2", "--pair", "0:2"], "2 ranks do not have"),
        (["show", "nonsense"], "'nonsense' is not one of"),
        (["verify", "--ranks", "many"], "many"),
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
    ("module", "arguments", "extra"), [("click", [], "cli"), ("matplotlib", ["bench"], "plot")]
)
def test_a_missing_extra_is_named(module: str, arguments: list[str], extra: str) -> None:
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
    assert f"pip install 'sennit[{extra}]'" in answer.stderr


def test_verify_proves_and_counts(sennit_command: Command) -> None:
    answer = sennit_command("verify", "--collective", "all_reduce", "--ranks", "1:4", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["instances"] > 0
    assert (document["failed"], document["failures"]) == (0, [])
    assert f"{document['instances']} instances, 0 failed" in answer.stderr


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
    answer = sennit_command("machine", "--json", str(file))
    assert answer.returncode == 0, answer.stderr
    document = json.loads(file.read_text())
    assert document["cores"] >= 1
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
