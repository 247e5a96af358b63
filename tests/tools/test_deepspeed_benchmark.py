"""DeepSpeed's benchmark over both NCCLs: what its output says, and which library ran."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench/gpu"))
import deepspeed_benchmark

# In place of the benchmark: its lines with --raw, quicker with a codec, and what the library says.
BENCHMARK = """
import os, sys
codec = os.environ.get("SENNIT_CODEC")
us = 100 if "LD_PRELOAD_SEEN" not in os.environ else 25 if codec else 50
if os.environ["RANK"] == "0":
    print("\\n---- Performance of all_to_all on 2 devices ----")
    print(f"{2097152:<20} {'524288x4':25s} {us:20.3f} {'1.0':20s} {'0.5':20s}")
if "SENNIT_DEBUG_FILE" in os.environ:
    with open(os.environ["SENNIT_DEBUG_FILE"].replace("%p", os.environ["RANK"]), "w") as log:
        log.write("ends: 3 calls of 12 bytes ran on Sennit, 0 were passed on")
"""
# In place of PyTorch's launcher.
LAUNCHER = """
import os, subprocess, sys
words = sys.argv[sys.argv.index("--no-python") + 1:]
words = ["LD_PRELOAD_SEEN=1" if w.startswith("LD_PRELOAD=") else w for w in words]
for rank in range(2):
    subprocess.run(words, check=True, env={**os.environ, "RANK": str(rank)})
"""


def made(tmp_path: Path, benchmark: str) -> list[str]:
    """The arguments, with these programs in the place of others'."""
    for folder in ("communication", "accelerator", "torch/distributed"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "communication/all_to_all.py").write_text(benchmark)
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/distributed/__init__.py").touch()
    (tmp_path / "torch/distributed/run.py").write_text(LAUNCHER)
    words = ["deepspeed_benchmark.py", "--benchmarks", str(tmp_path / "communication")]
    words += ["--accelerator", str(tmp_path / "accelerator"), "--ours", "libnccl.so.2"]
    return [*words, "--codecs", "q8", "--rounds", "2", "--out", str(tmp_path / "out.json")]


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, benchmark: str) -> None:
    monkeypatch.setattr(sys, "argv", made(tmp_path, benchmark))
    # The launcher is found where the program starts.
    monkeypatch.chdir(tmp_path)
    deepspeed_benchmark.main()


def test_rows_have_both_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run(monkeypatch, tmp_path, BENCHMARK)
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(row["codec"], row["bytes"], row["ratio"]) for row in rows] == [
        ("none", 2097152, 2.0),
        ("q8", 2097152, 4.0),
    ]


def test_calls_that_did_not_run_here_end_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="none: status 0"):
        run(monkeypatch, tmp_path, BENCHMARK.replace("3 calls", "0 calls"))
