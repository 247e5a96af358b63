"""`sennit simulate`, `explain`, `reproduce`, and `machine` for machines that need not be here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]

PAIR = """machine pair Two GPUs
source guess for this test
gpu 0..1
link gpu0 gpu1 nvlink 10 GB/s from guess
"""

# What `lstopo` writes of two sockets, cut to what is read: a GPU on each, a card on the first.
HWLOC = """<?xml version="1.0"?>
<topology version="2.0"><object type="Machine">
 <object type="Package">
  <object type="Bridge"><object type="PCIDev" pci_type="0302 [10de:2330]" pci_link_speed="63.0"/>
   <object type="PCIDev" pci_type="0207 [15b3:1021]" pci_link_speed="31.5"/></object>
 </object>
 <object type="Package">
  <object type="Bridge"><object type="PCIDev" pci_type="0302 [10de:2330]" pci_link_speed="63.0"/>
  </object>
  <object type="PCIDev" pci_type="0106 [8086:a352]" pci_link_speed="4.0"/>
 </object>
</object></topology>
"""


def test_simulate_reads_a_file_and_writes_trace_and_picture(
    sennit_command: Command, tmp_path: Path
) -> None:
    machine = tmp_path / "pair.machine"
    machine.write_text(PAIR)
    trace, picture = tmp_path / "trace.json", tmp_path / "picture.svg"
    answer = sennit_command(
        *("simulate", "send_recv", "--machine", str(machine), "--bytes", "1000000"),
        *("--trace", str(trace), "--picture", str(picture), "--json", "-"),
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["seconds"] == pytest.approx(100e-6)
    assert "predicted: 100.00 us" in answer.stderr
    assert any(event["ph"] == "X" for event in json.loads(trace.read_text())["traceEvents"])
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--machine", "abacus"], "there is no machine 'abacus'; there are: ac922"),
        (["--machine", "no/such.machine"], "cannot read no/such.machine"),
        (["--machine", "h200-x2", "--ranks", "3"], "which has no fabric"),
    ],
)
def test_a_machine_that_does_not_serve_is_bad_usage(
    sennit_command: Command, arguments: list[str], words: str
) -> None:
    answer = sennit_command("simulate", "all_reduce", "--bytes", "1K", *arguments)
    assert answer.returncode == 2
    assert words in answer.stderr


def test_explain_names_the_choice_and_its_reason(sennit_command: Command) -> None:
    answer = sennit_command(
        "explain", "broadcast", "--machine", "kesch", "--bytes", "64M", "--json", "-"
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["choice"] == document["candidates"][0]["algorithm"]
    assert document["reason"] in " ".join(answer.stderr.split("\n"))


def test_explain_says_what_gpu_ranks_choose(sennit_command: Command) -> None:
    answer = sennit_command(
        "explain", "all_gather", "--machine", "h200-x4", "--bytes", "4M", "--json", "-"
    )
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["choice"] == "direct"
    assert document["gpu_ranks"]["protocol"] == "direct_put"
    assert "GPU ranks take direct by direct_put" in answer.stderr


def test_simulate_shares_a_message_between_two_paths(sennit_command: Command) -> None:
    message = ("simulate", "send_recv", "--machine", "h200-x2", "--bytes", "256M", "--json", "-")
    answer = sennit_command(*message, "--path", "nvlink+host:8", "--protocol", "direct_get")
    assert answer.returncode == 0, answer.stderr
    assert [strand["share"] for strand in json.loads(answer.stdout)["strands"]] == [92, 8]
    assert "8 % direct by slots" in answer.stderr
    refused = sennit_command(*message, "--path", "nvlink+host:101")
    assert refused.returncode == 2
    assert "a share is 0 to 100" in refused.stderr


def test_reproduce_gives_every_row_a_verdict(sennit_command: Command) -> None:
    answer = sennit_command("reproduce", "4", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    rows = json.loads(answer.stdout)["rows"]
    assert len(rows) >= 10
    assert {row["verdict"] for row in rows} <= {"reproduced", "shape only", "not reproduced"}


def measured_file(path: Path, gpus: list[str], rows: list[dict[str, object]]) -> Path:
    """A result file with what of it is read."""
    path.write_text(json.dumps({"machine": {"gpus": gpus}, "rows": rows}))
    return path


def gpu_row(mode: str, p50: float, **more: object) -> dict[str, object]:
    """A row of an all_reduce of 1 MB between two GPUs."""
    row = {"collective": "all_reduce", "executor": "cuda", "ranks": 2, "bytes": 1 << 20}
    return row | {"mode": mode, "time_us": {"p50": p50}} | more


def test_a_measured_call_counts_once_and_on_its_machine(
    sennit_command: Command, tmp_path: Path
) -> None:
    file = measured_file(
        tmp_path / "measured.json",
        ["NVIDIA H200"] * 2,
        [gpu_row("stream", 9.0), gpu_row("graph", 7.0), gpu_row("graph", 50.0, paths="host")],
    )
    answer = sennit_command("reproduce", "--measured", str(file), "--json", "-")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["machine"] == "h200-x2"
    assert [row["measured_us"] for row in document["rows"]] == [7.0]


def test_a_machine_of_other_gpus_has_to_be_named(sennit_command: Command, tmp_path: Path) -> None:
    file = measured_file(tmp_path / "a100.json", ["NVIDIA A100"], [gpu_row("graph", 9.0)])
    answer = sennit_command("reproduce", "--measured", str(file))
    assert answer.returncode == 2
    assert "name a --machine" in answer.stderr
    named = sennit_command("reproduce", "--measured", str(file), "--machine", "h200-x2")
    assert named.returncode == 0, named.stderr


@pytest.mark.parametrize(
    "document",
    [
        "[]",
        '{"machine": {"gpus": 3}, "rows": []}',
        '{"machine": {"gpus": ["NVIDIA H200"]}, "rows": 3}',
        json.dumps(
            {"machine": {"gpus": ["NVIDIA H200"]}, "rows": [gpu_row("graph", 9.0, ranks="2")]}
        ),
        json.dumps(
            {
                "machine": {"gpus": ["NVIDIA H200"]},
                "rows": [gpu_row("graph", 9.0, ranks="2"), gpu_row("graph", 9.0)],
            }
        ),
    ],
)
def test_what_is_no_result_file_is_refused(
    sennit_command: Command, tmp_path: Path, document: str
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(document)
    answer = sennit_command("reproduce", "--measured", str(file))
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr


def test_machine_lists_and_draws(sennit_command: Command, tmp_path: Path) -> None:
    assert "thetagpu" in sennit_command("machine", "--list").stdout
    picture = tmp_path / "machine.svg"
    answer = sennit_command("machine", "--file", "ac922", "--picture", str(picture))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("machine ac922 IBM AC922")
    assert "gpu3" in picture.read_text()
    assert sennit_command("machine", "--picture", str(picture)).returncode == 2


def test_machine_imports_what_hwloc_knows(sennit_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "node.xml"
    file.write_text(HWLOC)
    answer = sennit_command("machine", "--hwloc", str(file))
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "machine node Imported from hwloc",
        "source hwloc What hwloc says of PCI links",
        *("cpu 0", "cpu 1", "gpu 0", "gpu 1", "nic 0"),
        "link gpu0 cpu0 pcie 63 GB/s from hwloc",
        "link gpu1 cpu1 pcie 63 GB/s from hwloc",
        "link nic0 cpu0 pcie 31.5 GB/s from hwloc",
    ]
