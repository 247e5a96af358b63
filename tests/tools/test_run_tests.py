"""The runner counts what the reports say, and a crash is a failure."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import run_tests

GTEST_REPORT = """<testsuites tests="4" failures="1"><testsuite name="Ring">
<testcase name="Passes" status="run" result="completed"/>
<testcase classname="Ring" name="Fails" status="run" result="completed">
  <failure message="x">a.cpp:7 1 != 2</failure></testcase>
<testcase name="NeedsGpu" status="run" result="skipped">
  <skipped message="gpu1: needs one GPU"><![CDATA[file.cpp:3]]></skipped></testcase>
<testcase name="DISABLED_Later" status="notrun" result="suppressed"/>
</testsuite></testsuites>"""

PYTEST_REPORT = """<testsuites><testsuite name="pytest">
<testcase name="test_a"/>
<testcase name="test_b"><error message="teardown"/></testcase>
<testcase name="test_c"><skipped type="pytest.skip" message="no label here"/></testcase>
</testsuite></testsuites>"""


def write(folder: Path, text: str) -> Path:
    report = folder / "report.xml"
    report.write_text(text, encoding="utf-8")
    return report


def test_googletest_report_is_counted(tmp_path: Path) -> None:
    tally = run_tests.read_report(write(tmp_path, GTEST_REPORT))
    assert (tally.passed, tally.failed) == (1, 1)
    assert tally.failures == ["Ring.Fails: a.cpp:7 1 != 2"]
    assert tally.skips == Counter(gpu1=1, disabled=1)


def test_pytest_report_is_counted(tmp_path: Path) -> None:
    tally = run_tests.read_report(write(tmp_path, PYTEST_REPORT))
    assert (tally.passed, tally.failed) == (1, 1)
    assert tally.skips == Counter(other=1)


def test_program_that_dies_without_report_is_a_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; os.abort()"]
    assert run_tests.run(command, tmp_path / "none.xml").failed == 1


def test_program_that_ends_well_without_report_is_a_failure(tmp_path: Path) -> None:
    assert run_tests.run([sys.executable, "-c", "pass"], tmp_path / "none.xml").failed == 1


def test_program_that_fails_after_a_clean_report_is_a_failure(tmp_path: Path) -> None:
    report = write(tmp_path, '<testsuites><testcase name="a" status="run"/></testsuites>')
    tally = run_tests.run([sys.executable, "-c", "raise SystemExit(1)"], report)
    assert (tally.passed, tally.failed) == (1, 1)


# Stands in for a test program of GoogleTest: two tests in each part, of which the second part's
# first fails.
PART = """
import os, sys
part = int(os.environ["GTEST_SHARD_INDEX"])
assert 0 <= part < int(os.environ["GTEST_TOTAL_SHARDS"])
failure = "<failure/>" if part == 1 else ""
with open(sys.argv[1].removeprefix("--gtest_output=xml:"), "w") as report:
    report.write(f"<testsuites><testcase>{failure}</testcase><testcase/></testsuites>")
print("part", part)
sys.exit(part == 1)
"""


def test_parts_are_added_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parts = 5
    tally = run_tests.run_in_parts([sys.executable, "-c", PART], tmp_path, parts, at_once=2)
    assert (tally.passed, tally.failed) == (2 * parts - 1, 1)
    assert tally.failures[0].endswith("\npart 1")
    printed = capfd.readouterr().out.splitlines()
    assert sorted(printed) == sorted(f"part {part}" for part in range(parts))


def test_a_part_that_dies_is_a_failure(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os; os.abort()"]
    tally = run_tests.run_in_parts(command, tmp_path, parts=3, at_once=1)
    assert (tally.passed, tally.failed) == (0, 3)


# Prints as GoogleTest does, and stays at its second test.
STUCK = """
import time
print("[ RUN      ] Ring.Ends", flush=True)
print("[       OK ] Ring.Ends (0 ms)", flush=True)
print("[ RUN      ] Ring.Stays", flush=True)
time.sleep(60)
"""


def test_a_part_that_does_not_end_names_its_test(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tests, "PROGRAM_TIMEOUT_S", 1)
    command = [sys.executable, "-c", STUCK]
    tally = run_tests.run_in_parts(command, tmp_path, parts=1, at_once=1)
    assert tally.failed == 1
    assert tally.failures[0].endswith("the last test begun: Ring.Stays")
    printed = capfd.readouterr().out
    assert "no end within 1 s" in printed
    assert "the last test begun: Ring.Stays" in printed
    assert "Ring.Ends" not in printed


def test_labels_are_read_from_ctest() -> None:
    test = {"properties": [{"name": "LABELS", "value": ["in_parts"]}]}
    assert run_tests.labels_of(test) == ["in_parts"]
    assert run_tests.labels_of({}) == []


def test_present_hardware_expects_no_skip() -> None:
    lines = ["# comment", "gpu1 4  # why", "", "gpu2 2"]
    assert run_tests.read_expected_skips(lines, ["gpu1"]) == Counter(gpu2=2)


def test_counts_of_several_runs_are_added(tmp_path: Path) -> None:
    files = [tmp_path / "one", tmp_path / "other"]
    run_tests.write_counts(files[0], run_tests.Tally(3, Counter(gpu1=2)))
    run_tests.write_counts(files[1], run_tests.Tally(4, Counter(gpu1=1, slow=1), ["Ring.Ends"]))
    total = run_tests.read_counts(files)
    assert total.failures == ["Ring.Ends"]
    assert (total.passed, total.failed, total.skips) == (7, 1, Counter(gpu1=3, slow=1))


def test_a_run_that_left_no_counts_has_failed(tmp_path: Path) -> None:
    run_tests.write_counts(tmp_path / "one", run_tests.Tally(3))
    total = run_tests.read_counts([tmp_path / "one", tmp_path / "missing"])
    assert (total.passed, total.failed) == (3, 1)


def test_a_label_that_depends_on_the_system_expects_no_number() -> None:
    lines = ["# comment", "gpu1 4", "namespaces any  # why"]
    assert run_tests.read_expected_skips(lines, []) == Counter(gpu1=4)
    assert run_tests.read_free_labels(lines) == {"namespaces"}


def test_summary_names_the_labels() -> None:
    assert run_tests.describe(Counter(gpu1=2, slow=1)) == "3 skipped (gpu1 2, slow 1)"
    assert run_tests.describe(Counter()) == "0 skipped"


def test_a_label_stands_behind_googletests_line_of_the_place() -> None:
    reason = "/somewhere/large_counts_test.cpp:51\nslow: needs 5 GiB of memory"
    assert run_tests.skip_label(reason) == "slow"
    assert run_tests.skip_label("ml_dtypes: not installed") == "ml_dtypes"
    assert run_tests.skip_label("no reason to name") == "other"
