"""What runs over both NCCLs does not pass where Sennit did not run, or where they differ."""

import argparse
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RAN = {"calls": 3, "bytes": 12, "passed_on": 0}
PASSED_ON = {"calls": 0, "bytes": 0, "passed_on": 1}
NOTHING = {"calls": 0, "bytes": 0, "passed_on": 0}


def load(path: str) -> ModuleType:
    """A script that is no module of a package."""
    name = Path(path).stem
    spec = spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # where its data classes look for it
    spec.loader.exec_module(module)
    return module


nccl_tests = load("bench/gpu/nccl_tests.py")
preloaded = load("bench/gpu/preloaded.py")
torch_nccl = load("tests/gpu/torch_nccl.py")


@pytest.mark.parametrize(
    ("arguments", "ours", "nvidia", "passes"),
    [
        ((), RAN, NOTHING, True),
        ((), NOTHING, NOTHING, False),
        ((), RAN, RAN, False),
        (("-D", "1"), PASSED_ON, NOTHING, True),
        (("-D", "1"), RAN, NOTHING, False),
    ],
)
def test_nccl_tests_pass_where_each_library_ran_in_its_run(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    ours: dict[str, int],
    nvidia: dict[str, int],
    passes: bool,
) -> None:
    shares = iter([ours, nvidia])

    def execute(*_: Any) -> dict[str, Any]:
        rows = [{"size": 8, "out_of_place": {"nwrong": 0, "time": 1.0}}]
        return {"code": 0, "rows": rows, "output": "", "share": next(shares)}

    monkeypatch.setattr(nccl_tests, "execute", execute)
    options = argparse.Namespace(programs=tmp_path, ours="a", nvidia="b", ranks=2)
    run = nccl_tests.Run("all_reduce", "threads", arguments)
    assert nccl_tests.compare(options, run, tmp_path)["passed"] is passes


@pytest.mark.parametrize(
    ("part", "file", "text"),
    [
        ("operations", "0.jsonl", json.dumps({"case": "a", "outcome": ["1"]})),
        (
            "training",
            "training.json",
            json.dumps({"model": {"losses": [2.0, 1.0], "ms_a_step": 1.0}}),
        ),
    ],
)
@pytest.mark.parametrize(
    ("ours", "theirs", "passes"),
    [(RAN, NOTHING, True), (NOTHING, NOTHING, False), (RAN, RAN, False)],
)
def test_torch_passes_where_each_library_ran_in_its_job(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    part: str,
    file: str,
    text: str,
    ours: dict[str, int],
    theirs: dict[str, int],
    passes: bool,
) -> None:
    shares = {"ours": ours, "theirs": theirs}

    def run_job(_options: Any, _part: str, _library: Any, folder: Path) -> Any:
        (folder / file).write_text(text, encoding="utf-8")
        return {"exit_codes": [0], "logs": [""], "ended": True, "share": shares[folder.name]}

    monkeypatch.setattr(torch_nccl, "run_job", run_job)
    options = argparse.Namespace(ours="a", ranks=1, device="cuda", against="nccl")
    result = (
        torch_nccl.compare_training(options, tmp_path)
        if part == "training"
        else torch_nccl.compare_cases(options, part, tmp_path)
    )
    assert result["passed"] is passes


@pytest.mark.parametrize(
    ("case", "ours", "passes"),
    [
        ("world: premul_sum", ["1"], True),
        ("world: premul_sum", "ValueError: no", False),
        ("world: all_gather", ["1"], False),
    ],
)
def test_what_gloo_has_not_is_not_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str, ours: Any, passes: bool
) -> None:
    outcomes = {"ours": ours, "theirs": "RuntimeError: unsupported"}

    def run_job(_options: Any, _part: str, _library: Any, folder: Path) -> Any:
        cases = {"a": ["1"], case: outcomes[folder.name]}
        lines = [json.dumps({"case": name, "outcome": cases[name]}) for name in cases]
        (folder / "0.jsonl").write_text("\n".join(lines), encoding="utf-8")
        share = RAN if folder.name == "ours" else NOTHING
        return {"exit_codes": [0], "logs": [""], "ended": True, "share": share}

    monkeypatch.setattr(torch_nccl, "run_job", run_job)
    options = argparse.Namespace(ours="a", ranks=1, device="cuda", against="gloo")
    result = torch_nccl.compare_cases(options, "operations", tmp_path)
    assert (result["passed"], result["not_in_gloo"]) == (passes, [case] if passes else [])


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (["1"], ["1"], True),
        (["1"], ["2"], False),
        (["1"], "ValueError: no", False),
        ("ValueError: no", "ValueError: no", True),
        ("ValueError: no", "ValueError: other", False),
        ("ValueError: no", "TypeError: no", False),
        (
            "DistBackendError: invalid usage ncclInvalidUsage: Last error: ours",
            "DistBackendError: NCCL 2.28 ncclInvalidUsage: Last error: theirs",
            True,
        ),
        (
            "DistBackendError: ncclInvalidUsage: Last error: x",
            "DistBackendError: ncclRemoteError: Last error: x",
            False,
        ),
    ],
)
def test_errors_are_the_same_where_class_and_result_are(
    found: Any, expected: Any, same: bool
) -> None:
    assert torch_nccl.is_same(found, expected) is same


def test_mean_of_the_last_losses_is_of_those_there_are() -> None:
    run = {"losses": [3.0, 2.0, 1.0], "ms_a_step": 1.0}
    assert torch_nccl.compare_losses(run, run)["mean_of_last_10_losses"] == 2.0


# Says what a library would, in two processes: only one destroys its communicator.
PROGRAM = """
import os, sys
assert os.environ["LD_PRELOAD"] == "" and os.environ["SENNIT_DEBUG"] == "INFO"
code, passed_on, made = sys.argv[1].split(",")
lines = {
    "1": "a communicator ends: 3 calls of 12 bytes ran on Sennit, 0 were passed on",
    "2": "a communicator is there when the program ends: 4 calls of 8 bytes ran on Sennit, "
    f"{passed_on} were passed on",
}
for process, line in lines.items():
    with open(os.environ["SENNIT_DEBUG_FILE"].replace("%p", process), "w") as log:
        log.write(line + "\\n")
print(made)
sys.exit(int(code))
"""


@pytest.mark.parametrize(
    ("code", "passed_on", "made", "passes", "says"),
    [
        (0, 0, "made: 7 calls of 20 bytes", True, "7 of 7 calls (100.0 %), 20 of 20 bytes"),
        (0, 0, "made: 9 calls of 9 bytes or 7 calls of 20 bytes", True, "7 of 7 calls"),
        (0, 0, "made: 8 calls of 20 bytes", False, "7 of 8 calls (87.5 %)"),
        (0, 0, "made: 6 calls of 20 bytes", False, "7 of 6 calls"),
        (0, 0, "made: 7 calls of 40 bytes", False, "20 of 40 bytes (50.0 %)"),
        (0, 0, "says nothing", False, "nothing was said to be made"),
        (0, 1, "made: 7 calls of 20 bytes", False, "1 passed on"),
        (1, 0, "made: 7 calls of 20 bytes", False, "FAILED, exit code 1"),
    ],
)
def test_a_preloaded_part_passes_where_all_that_it_made_ran_on_sennit(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    code: int,
    passed_on: int,
    made: str,
    passes: bool,
    says: str,
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    out = tmp_path / "out.json"
    part = f"{code},{passed_on},{made}"
    arguments = ["preloaded.py", "--ours", "", "--out", str(out), "--part", part, str(program)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert preloaded.main() == (0 if passes else 1)
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["passed"] is passes
    assert document["parts"][part]["passed"] is passes
    assert document["ran_on_sennit"] == {"calls": 7, "bytes": 20, "passed_on": passed_on}
    assert says in capsys.readouterr().out
