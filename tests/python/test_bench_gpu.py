"""`sennit bench --executor cuda` over a program that repeats committed measurements."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import result_files
from rich.console import Console
from sennit.cli import bench_gpu, compare_program, gpu_rows, run
from sennit.cli.gpu_table import GpuTable

FOUR_GPUS = result_files.RESULTS / "h200x4-slots.json"
PAIRS = result_files.RESULTS / "h200x2-lines.json"
NOT_IN_FILES = {*result_files.DERIVED, "registered"}
"""What files leave out, and what the older of the two did not have yet."""
# Notes its arguments, and prints the rows of the collective and the sizes that were asked for.
PROGRAM = f"""#!{sys.executable}
import json, sys
from pathlib import Path
here = Path(__file__).parent
with (here / "arguments").open("a") as notes:
    notes.write(json.dumps(sys.argv[1:]) + "\\n")
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
sizes = [int(size) for size in asked["--sizes"].split(",")]
print("NCCL version 2.28.9+cuda13.0")
for line in (here / "rows.jsonl").read_text().splitlines():
    row = json.loads(line)
    if row["collective"] == asked["--collective"] and row["bytes"] in sizes:
        print(line, flush=True)
"""
# A rank that fails: the program says why, a library says something else.
FAILING = """#!/bin/sh
echo "compare: joining: rank 1 did not join" >&2
echo "a library has something to say" >&2
exit {code}
"""
Gpus = Callable[[int], None]


def rows_of(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def printed(row: dict[str, Any]) -> dict[str, Any]:
    """What the program printed when a row of a result file was measured."""
    rivals = {
        rival["name"]: {"min": 0.0, "p50": rival["p50_us"], "p95": 0.0} for rival in row["rivals"]
    }
    kept = ("collective", "ranks", "bytes", "mode", "calls_per_sample", "samples", "wrong", "ratio")
    pattern = ("pair", "bidirectional", "window", "sm_budget", "paths", "registered", "sm_count")
    return {
        **{key: row[key] for key in (*kept, *pattern) if key in row},
        "time_us": {"sennit": row["time_us"], **rivals, **row["engines"]},
        "rival_us": row["rival"]["p50_us"],
    }


def write_program(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Have the library describe a machine with so many GPUs."""

    def have(count: int) -> None:
        machine: dict[str, Any] = {
            "gpus": [{}] * count,
            "gpu_note": "" if count else "no NVIDIA driver",
        }
        monkeypatch.setattr(bench_gpu, "ask", lambda _: machine)

    return have


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: Gpus) -> Path:
    """A machine with four GPUs, an NCCL, and a program that repeats what was measured there."""
    gpus(4)
    monkeypatch.setattr(compare_program, "nccl_version", lambda _: "2.28.9")
    monkeypatch.setenv("SENNIT_NCCL_FALLBACK_LIB", "/nccl/libnccl.so.2")
    lines = [json.dumps(printed(row)) for row in (*rows_of(FOUR_GPUS), *rows_of(PAIRS))]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")
    file = write_program(tmp_path / "sennit-compare", PROGRAM)
    monkeypatch.setenv("SENNIT_COMPARE", str(file))
    return file


def bench(*arguments: str) -> int:
    return run(["bench", *arguments, "--executor", "cuda"])


def arguments_of(program: Path) -> list[dict[str, str]]:
    """The options of each start of the program."""
    lines = (program.parent / "arguments").read_text(encoding="utf-8").splitlines()
    words = [json.loads(line) for line in lines]
    return [dict(zip(one[::2], one[1::2], strict=True)) for one in words]


@pytest.mark.parametrize("file", [FOUR_GPUS, PAIRS])
def test_rows_are_those_of_result_files(file: Path) -> None:
    rows = rows_of(file)
    assert rows
    for row in rows:
        made = gpu_rows.row(printed(row))
        columns = row.keys() - {"what"}
        assert {key: made[key] for key in columns} == {key: row[key] for key in columns}
        assert made.keys() - columns <= NOT_IN_FILES


def test_rows_say_whether_sennit_worked_on_registered_memory() -> None:
    line = printed(rows_of(FOUR_GPUS)[0])
    assert gpu_rows.row(line)["registered"] is False
    assert gpu_rows.row(line | {"registered": True})["registered"] is True


def test_bandwidths_are_those_of_nccl_tests() -> None:
    line = printed(rows_of(FOUR_GPUS)[0]) | {"bytes": 8000, "time_us": {}}
    for collective, factor in (("all_reduce", 1.5), ("all_gather", 0.75), ("broadcast", 1.0)):
        times = {name: {"p50": 2.0} for name in ("sennit", "nccl")}
        row = gpu_rows.row(line | {"collective": collective, "time_us": times})
        assert row["algbw_GBps"] == pytest.approx(4.0)
        assert row["busbw_GBps"] == pytest.approx(4.0 * factor)
        window = gpu_rows.row(line | {"time_us": times, "window": 64})
        assert window["algbw_GBps"] == pytest.approx(256.0)


def test_floors_are_those_of_hops_and_of_bytes() -> None:
    line = {"ranks": 4, "bytes": 390_000, "collective": "broadcast"}
    assert gpu_rows.floors_us(line) == pytest.approx((0.7, 1.0))
    assert gpu_rows.floors_us(line | {"collective": "all_reduce"})[1] == pytest.approx(1.5)
    assert gpu_rows.floors_us(line | {"collective": "all_gather"})[1] == pytest.approx(0.75)
    many = line | {"collective": "send_recv", "window": 64}
    assert gpu_rows.floors_us(many)[1] == pytest.approx(64.0)


def test_a_row_and_its_line_say_how_many_sms_it_takes() -> None:
    row = gpu_rows.row(printed(rows_of(FOUR_GPUS)[0]) | {"sm_count": 16})
    assert row["sm_count"] == 16
    cells = GpuTable(Console(), "2.28.9").cells(row)
    assert cells[[name for name, *_ in GpuTable.columns].index("SMs")] == "16"


def test_a_benchmark_is_the_rows_of_the_program(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    sizes = ("-b", "1M", "-e", "16M", "-f", "4")
    assert bench("all_reduce", "all_gather", *sizes, "--against", "nccl", "--json", str(file)) == 0
    document = json.loads(file.read_text())
    assert (document["schema"], document["nccl"]) == (1, "2.28.9")
    assert {"machine", "version", "commit", "date"} <= set(document)
    expected = [
        row
        for row in rows_of(FOUR_GPUS)
        if row["collective"] in ("all_reduce", "all_gather") and 1 << 20 <= row["bytes"] <= 16 << 20
    ]
    assert [row["ratio"] for row in document["rows"]] == [row["ratio"] for row in expected]
    answer = capsys.readouterr()
    title, columns, units, first, ways, *_ = answer.out.splitlines()
    assert title == (
        "all_reduce, 4 GPU ranks, graph, 20 samples after 5, checked against NCCL 2.28.9"
    )
    assert columns.split()[-5:] == ["nccl", "windows", "staged", "ratio", "#wrong"]
    assert units.split().count("us") == 7
    assert first.split() == [
        *("1048576", "float32", "sum", "10.32", "10.47", "10.63", "4.03", "-"),
        *("100.162", "150.243", "16.93", "17.19", "-", "1.62", "0"),
    ]
    assert ways.split() == ["p50", "us", "by", "ll128", "10.5,", "slots", "14.9"]
    assert "NCCL version 2.28.9+cuda13.0" in answer.err
    assert program.exists()


def test_ranks_that_share_gpus_are_beside_copies_through_host_memory(
    program: Path, gpus: Gpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gpus(1)
    line = printed(rows_of(FOUR_GPUS)[0]) | {"gpus": 1, "mps": True, "ratio": 8.0}
    times = {
        name: {"min": 1.0, "p50": us, "p95": us} for name, us in (("sennit", 3), ("staged", 24))
    }
    (program.parent / "rows.jsonl").write_text(json.dumps(line | {"time_us": times}))
    file = tmp_path / "out.json"
    assert bench("--ranks", "4", "-b", "256", "-e", "256", "--json", str(file)) == 0
    assert "--nccl" not in arguments_of(program)[0]
    document = json.loads(file.read_text())
    assert document["nccl"] is None
    (row,) = document["rows"]
    assert (row["gpus"], row["mps"], row["ratio"]) == (1, True, 8.0)
    assert row["rival"] == {"name": "staged", "p50_us": 24}
    assert (row["engines"], row["floor_hops_us"], row["floor_bytes_us"]) == ({}, None, None)
    title, *_, cells = capsys.readouterr().out.splitlines()
    assert title.endswith("checked against copies through host memory")
    assert cells.split()[-5:] == ["-", "-", "24.00", "8.00", "0"]


@pytest.mark.parametrize(("count", "ranks"), [(1, "2"), (2, "2"), (4, "4")])
def test_ranks_are_the_gpus_and_two_where_there_is_one(
    program: Path, gpus: Gpus, count: int, ranks: str
) -> None:
    gpus(count)
    assert bench("-b", "256", "-e", "256") == 0
    assert arguments_of(program)[0]["--ranks"] == ranks


@pytest.mark.parametrize("option", [["--against", "nccl"], ["--registered"]])
def test_nccl_is_refused_where_ranks_share_gpus(
    program: Path, gpus: Gpus, capsys: pytest.CaptureFixture[str], option: list[str]
) -> None:
    gpus(1)
    assert bench("--ranks", "4", *option) == 2
    assert "NCCL refuses to share GPUs" in " ".join(capsys.readouterr().err.split())
    assert not (program.parent / "arguments").exists()


def test_calls_together_with_a_load_have_a_table_of_their_own(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = result_files.RESULTS / "overlap-2gpu.json"
    (program.parent / "rows.jsonl").write_text(
        "\n".join(json.dumps(r) for r in rows_of(beside)[:5])
    )
    file = tmp_path / "out.json"
    options = ("--beside", "matmul", "--load-sms", "100", "--json", str(file))
    assert bench("all_gather", "-b", "32M", "-e", "64M", "-f", "2", *options) == 0
    (words,) = arguments_of(program)
    assert (words["--beside"], words["--load-sms"]) == ("matmul", "100")
    title, columns, _, first, second = capsys.readouterr().out.splitlines()
    assert "together with products of matrices for 100 SMs" in title
    assert columns.split()[-5:] == ["nccl", "both", "/longer", "ratio", "#wrong"]
    assert first.split() == [
        *("33554432", "0.86", "0.85", "1.62", "1.88", "26"),
        *("1.43", "2.05", "1.43", "1.26", "0"),
    ]
    rows = json.loads(file.read_text())["rows"]
    assert [row["both_over_max"] for row in rows] == pytest.approx([1.88, 1.60], abs=0.01)
    assert second.split()[0] == "67108864"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--load-sms", "100"], "--load-sms needs --beside matmul"),
        (["--beside", "copy", "--load-sms", "100"], "--load-sms needs --beside matmul"),
        (["--beside", "copy", "--mode", "call"], "--beside needs --mode graph or stream"),
        (["--beside", "copy", "--registered"], "--beside goes with neither"),
        (["--beside", "copy", "--against", "shares"], "--beside goes with neither"),
        (["--beside", "copy", "--ranks", "16"], "--beside compares with NCCL"),
        (["--beside", "copy", "--plot", "out.svg"], "--plot draws times by size"),
    ],
)
def test_loads_that_cannot_be_timed_are_refused(
    program: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert bench(*options) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (program.parent / "arguments").exists()


def test_options_become_the_words_of_the_program(program: Path) -> None:
    sizes = ("-b", "8", "-e", "1G", "-f", "64")
    options = ("--mode", "stream", "--no-registered", "-n", "7", "-w", "2", "--no-check")
    request = ("--algorithm", "two_shot", "--protocol", "ll128", "--paths", "nvlink")
    # The recorded rows have few of these sizes.
    assert bench("all_gather", *sizes, *options, *request, "--ranks", "3") == 3
    assert arguments_of(program) == [
        {
            "--nccl": "/nccl/libnccl.so.2",
            "--collective": "all_gather",
            "--ranks": "3",
            "--mode": "stream",
            # A whole element of each rank.
            "--sizes": "12,516,32772,2097156,134217732,1073741832",
            "--samples": "7",
            "--warmup": "2",
            "--check": "no",
            "--registered": "no",
            "--algorithm": "two_shot",
            "--protocol": "ll128",
            "--path": "nvlink",
        }
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], {"--bidirectional": "no", "--window": "1"}),
        (
            ["--pair", "0:1", "--window", "64", "--bidirectional", "--sm-budget", "1"],
            {"--pair": "0:1", "--window": "64", "--bidirectional": "yes", "--sm-budget": "1"},
        ),
        (["--paths", "nvlink,host"], {"--path": "nvlink+host"}),
        (["--paths", "nvlink,host", "--share", "6"], {"--path": "nvlink+host:6"}),
        (["--paths", "device,host", "--share", "6"], {"--path": "device+host:6"}),
        (
            ["--share", "6", "--against", "engines"],
            {"--path": "nvlink+host:6", "--against": "engines"},
        ),
        (
            ["--paths", "nvlink,host", "--share", "4,8", "--against", "shares"],
            {"--against": "shares", "--paths": "nvlink,host", "--share": "4,8"},
        ),
        (
            ["--mode", "stream", "--share", "4,dynamic", "--against", "shares"],
            {"--against": "shares", "--share": "4,dynamic"},
        ),
        (["--mode", "stream", "--share", "dynamic"], {"--path": "nvlink+host:dynamic"}),
        (["--against", "shares", "--against", "nccl"], {"--against": "shares"}),
        (["--registered"], {"--registered": "yes"}),
    ],
)
def test_messages_and_shares_become_words_of_the_program(
    program: Path, options: list[str], words: dict[str, str]
) -> None:
    assert bench("send_recv", "-b", "64M", "-e", "64M", *options) == 3
    (start,) = arguments_of(program)
    of_shape = {"--pair", "--window", "--bidirectional", "--sm-budget"}
    of_ways = {"--path", "--paths", "--share", "--against", "--registered"}
    defaults = {"--bidirectional": "no", "--window": "1"}
    found = {flag: start[flag] for flag in (of_shape | of_ways) & set(start)}
    assert found == defaults | words


def test_a_wrong_element_ends_it_with_1(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = printed(rows_of(FOUR_GPUS)[0]) | {"wrong": 3}
    (program.parent / "rows.jsonl").write_text(json.dumps(line), encoding="utf-8")
    assert bench("-b", "256", "-e", "256") == 1
    assert capsys.readouterr().out.splitlines()[-1].split()[-1] == "3"


def test_one_mode_of_nccl_leaves_a_gap_in_the_table(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(rows_of(FOUR_GPUS)[0]) | {"wrong": None, "registered": False}
    del line["time_us"]["nccl windows"]
    (program.parent / "rows.jsonl").write_text(json.dumps(line), encoding="utf-8")
    assert bench("-b", "256", "-e", "256", "--no-registered", "--no-check", "--json", "-") == 0
    answer = capsys.readouterr()
    (row,) = json.loads(answer.out)["rows"]
    assert row["rival"]["name"] == "nccl"
    assert row["registered"] is False
    assert row["wrong"] is None
    assert answer.err.splitlines()[-1].split()[-3] == "-"


def test_a_codec_has_its_error_in_the_table(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = printed(rows_of(FOUR_GPUS)[0]) | {"wrong": None, "codec": "q8", "error": 0.0055}
    (program.parent / "rows.jsonl").write_text(json.dumps(line), encoding="utf-8")
    assert bench("-b", "256", "-e", "256", "--codec", "q8", "--json", "-") == 0
    answer = capsys.readouterr()
    (row,) = json.loads(answer.out)["rows"]
    assert (row["codec"], row["error"], row["wrong"]) == ("q8", {"rms": 0.0055}, None)
    assert answer.err.splitlines()[-1].split()[-1] == "5.50e-03"
    assert arguments_of(program)[0]["--codec"] == "q8"


def test_the_plot_is_a_picture(program: Path, tmp_path: Path) -> None:
    file = tmp_path / "plot.png"
    assert bench("-b", "256", "-e", "4K", "-f", "4", "--plot", str(file)) == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert len(arguments_of(program)) == 1


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (3, 3), (4, 4), (1, 3), (77, 3)])
def test_what_the_program_said_last_is_the_reason(
    program: Path, capsys: pytest.CaptureFixture[str], code: int, expected: int
) -> None:
    write_program(program, FAILING.format(code=code))
    assert bench() == expected
    passed_on, reason, *rest = capsys.readouterr().err.splitlines()
    assert passed_on == "a library has something to say"
    assert reason == "sennit: sennit-compare: joining: rank 1 did not join"
    assert bool(rest) == (expected == 3)


@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 0", "without 1 of the rows of all_reduce"), ("kill -9 $$", "ended with code -9")],
)
def test_a_program_that_ends_without_rows_or_reason_is_told(
    program: Path, capsys: pytest.CaptureFixture[str], script: str, words: str
) -> None:
    write_program(program, f"#!/bin/sh\n{script}\n")
    assert bench("-b", "256", "-e", "256") == 3
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gather"], "not gather"),
        (
            ["-d", "float16"],
            "--dtype float16 is for --executor host; GPU ranks are timed with float32",
        ),
        (["-o", "max"], "GPU ranks are timed with sum"),
        (["-r", "1"], "GPU ranks are timed with 0"),
        (["--tile-bytes", "4K"], "GPU ranks are timed with none"),
        (["--codec", "q9"], "there is no codec 'q9'"),
        (["--in-place"], "--in-place True is for --executor host"),
        (["-N", "2"], "--cycles 2 is for --executor host"),
        (["--protocol", "direct"], "not direct"),
        (
            ["--paths", "shm,cma"],
            "--paths of GPU ranks are nvlink, device, host, nvlink,host, device,host; not shm,cma",
        ),
        (["--against", "mpi"], "--against on GPU ranks takes nccl, shares, engines; not mpi"),
        (["--against", "shares", "--against", "engines"], "not both"),
        (["--share", "6", "--paths", "host"], "--share needs --paths nvlink,host or device,host"),
        (["--share", "4,8"], "compared by --against shares"),
        (["--share", "0"], "'0' is not percent from 1 to 100"),
        (["send_recv", "--share", "dynamic"], "--share dynamic needs --mode stream"),
        (["all_gather", "--share", "dynamic", "--mode", "stream"], "is for send_recv"),
        (["send_recv", "--bidirectional"], "--bidirectional needs --pair"),
        (["send_recv", "--pair", "0:4"], "the 4 ranks are 0 to 3"),
        (["all_reduce", "--pair", "0:1"], "are for send_recv"),
        (["--ranks", "1"], "--ranks of GPUs is 2 to 16; not 1"),
    ],
)
def test_what_gpu_ranks_have_not_is_bad_usage(
    program: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert bench(*arguments) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert not (program.parent / "arguments").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--share", "6"], "--share is for --executor cuda"),
        (["--sm-budget", "2"], "--sm-budget is for --executor cuda"),
        (["--no-registered"], "--registered is for --executor cuda"),
        (["--protocol", "ll128"], "--protocol of host ranks is slots or direct"),
    ],
)
def test_what_host_ranks_have_not_is_bad_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert run(["bench", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_it_is_not_for_ranks_of_a_launcher(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"PMI_RANK": "0", "PMI_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert bench() == 2
    assert "do not use mpiexec" in capsys.readouterr().err
    assert not (program.parent / "arguments").exists()


@pytest.mark.usefixtures("program")
def test_a_machine_without_gpus_says_why(gpus: Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    gpus(0)
    assert bench() == 4
    answer = capsys.readouterr().err
    assert "needs a GPU: no NVIDIA driver" in answer
    assert "Next: use --executor host" in answer


def test_a_program_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SENNIT_COMPARE", str(tmp_path / "nothing"))
    assert bench() == 4
    assert "nothing is no program\nNext: name sennit-compare" in capsys.readouterr().err
