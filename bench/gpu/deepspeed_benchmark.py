"""Runs DeepSpeed's all_to_all benchmark over NCCL and over this library, in turns, with codecs.

    python3 bench/gpu/deepspeed_benchmark.py --benchmarks DIR --accelerator DIR --ours LIB \
        --out FILE

DIRs are `benchmarks/communication` of deepspeedai/DeepSpeedExamples and `accelerator` of
deepspeedai/DeepSpeed, 200 KB together and all that the benchmark needs of both; PyTorch has to be
installed. LIB is Sennit's libnccl.so.2, which is preloaded in its turns. No GPU reaches another's
memory: both libraries go through host memory. The benchmark sends constants, so this says nothing
of errors. FILE gets a row for each size and way.

Exit code 1: a run failed, or calls did not run on the library that they should run on.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent))
import preloaded
from collect import answer, machine, result_files
from collect_programs import version_of

CODECS = ("zfp:16", "zfp:8", "q8")
LINE = re.compile(r"^(\d+) +(\d+)x(\d+) +([0-9.]+) ", re.MULTILINE)
"""Of the benchmark with --raw: bytes, elements, bytes of one, microseconds."""
LIMIT_S = 150


def folder_of(options: argparse.Namespace, root: Path) -> Path:
    """What Python shall find: the benchmark, and of DeepSpeed what it imports."""
    shutil.copytree(options.benchmarks, root / "communication")
    shutil.copytree(options.accelerator, root / "deepspeed/accelerator")
    return root


def variables_of(way: str, options: argparse.Namespace, logs: Path) -> dict[str, str]:
    """Of a rank: way "nccl", "none" or a codec."""
    if way == "nccl":
        return {"NCCL_P2P_DISABLE": "1", "NCCL_NVLS_ENABLE": "0"}
    found = {"LD_PRELOAD": str(options.ours), "SENNIT_PATHS": "host"}
    found |= {"SENNIT_NCCL_FALLBACK_LIB": "none", "SENNIT_DEBUG": "INFO"}
    found |= {"SENNIT_DEBUG_SUBSYS": "nccl", "SENNIT_DEBUG_FILE": f"{logs}/%p.log"}
    # PyTorch makes one call or a group of messages of equal parts, by its version.
    return found if way == "none" else found | {"SENNIT_CODEC": f"all_to_all={way},send_recv={way}"}


def run(way: str, options: argparse.Namespace, root: Path) -> dict[int, float]:
    """Microseconds by the bytes of a rank."""
    with tempfile.TemporaryDirectory(prefix="sennit-share-") as logs:
        words = [f"{k}={v}" for k, v in variables_of(way, options, Path(logs)).items()]
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc-per-node", str(options.ranks), "--no-python", "env", *words]
        command += [sys.executable, str(root / "communication/all_to_all.py"), "--scan", "--raw"]
        command += ["--dist", "torch", "--backend", "nccl", "--dtype", options.dtype]
        command += ["--maxsize", str(options.maxsize), "--trials", str(options.trials)]
        ran = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        share = preloaded.share_of(Path(logs))
    times = {int(size): float(us) for size, _, _, us in LINE.findall(ran.stdout)}
    if ran.returncode != 0 or not times or (way != "nccl") != (share["calls"] > 0):
        sys.exit(
            f"{way}: status {ran.returncode}, {share}\n{ran.stdout[-2000:]}{ran.stderr[-4000:]}"
        )
    return times


def rows_of(times: dict[str, list[dict[int, float]]], options: argparse.Namespace) -> list[Any]:
    """A row for each size and way but NCCL's."""
    rows = []
    for way in list(times)[1:]:
        for size in times[way][0]:
            ours = statistics.median(one[size] for one in times[way])
            theirs = statistics.median(one[size] for one in times["nccl"])
            row = {"program": "DeepSpeed all_to_all", "dtype": options.dtype, "bytes": size}
            row |= {"ranks": options.ranks, "codec": way, "rounds": len(times[way])}
            rows.append(row | {"time_us": ours, "rival_time_us": theirs, "ratio": theirs / ours})
    return rows


def main() -> None:
    """Runs and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--benchmarks", type=Path, required=True)
    parser.add_argument("--accelerator", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--codecs", nargs="*", default=CODECS)
    parser.add_argument("--dtype", default="float", help="as PyTorch calls it")
    parser.add_argument("--maxsize", type=int, default=26, help="below 2^N elements to each rank")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    ways = ["nccl", "none", *options.codecs]
    times: dict[str, list[dict[int, float]]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="sennit-deepspeed-") as folder:
        root = folder_of(options, Path(folder))
        for index in range(options.rounds):
            for way in ways if index % 2 == 0 else reversed(ways):
                times[way].append(run(way, options, root))
    rows = rows_of(times, options)
    document = {
        "schema": 1,
        "program": "bench/gpu/deepspeed_benchmark.py",
        "machine": machine(),
        "version": "0.1.0",
        "versions": {name: version_of(name) for name in ("torch", "nvidia-nccl-cu13")},
        "commit": answer("git", "rev-parse", "HEAD") or None,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": rows,
    }
    result_files.write(options.out, document)
    for row in rows:
        if row["bytes"] >= 1 << 20:
            print(f"{row['bytes']:12} {row['codec']:7}{row['time_us']:10.1f} us{row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
