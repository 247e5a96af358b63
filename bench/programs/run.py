"""Runs programs of PyTorch over Sennit and over a rival in turns.

    python3 bench/programs/run.py --out FILE --device cuda --ours LIB [--ranks N]
    python3 bench/programs/run.py --out FILE --device cuda --fused RIVAL [--ours LIB]
    python3 bench/programs/run.py --out FILE --device cpu [--fused gloo] [--program NAME]...
    ... [--codec CODEC] [--through-host]
    python3 bench/programs/run.py --out FILE --ours LIB --ranks 4 --gpus 1 [--rival gloo] [--mps]

LIB is Sennit's libnccl.so.2, which is preloaded; the rival on GPUs is NCCL, on CPUs Gloo. Each
library has a job of its own, and both lie on the same devices all the time; only one has orders at
a time, some steps each. On CPUs the programs are small: that tests the benchmark.

With --fused decoding has sennit.torch.all_reduce_rms_norm in place of three calls, by the backend
`sennit`. RIVAL makes the three calls: `ours` on Sennit's library, `nccl` on NCCL, `symmetric` with
PyTorch's symmetric memory; `ours-compiled` and `nccl-compiled` make two, since torch.compile joins
all that follows the all_reduce.

With --gpus the ranks share so many GPUs, rank r having GPU r modulo that number, and --mps starts
CUDA's Multi-Process Service for them. There the rival can be `gloo`, which copies through host
memory. NCCL refuses more ranks of a GPU than one, or from 2.30 on two. --steps 1 is for programs
that are slow there.

With --codec calls of Sennit's job are coded where they can be, and a row has the largest relative
difference of what the last step returned. With --through-host no GPU reaches another's memory.

FILE gets a row for each program: ms a step of the median round and of the fastest and slowest, by
the slowest rank, and from a step with the profiler how long no kernel of the program's own ran.
Exit code 1: results differ, or a library ran in the wrong job; 3: a rank failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "ddp"))

from jobs import Job, JobFailed

PROGRAMS = (
    *(f"decode, {tokens}" for tokens in ("1 token", "8 tokens", "64 tokens")),
    *(f"decode FP8, {tokens}" for tokens in ("1 token", "8 tokens")),
    *(f"MoE, {tokens} tokens" for tokens in (64, 512, 4096)),
    "FSDP2",
    "DDP",
    "turbulence, 256",
    *(f"one all_reduce, {size}" for size in ("256 KB", "1 MB")),
    *(f"one uneven all_to_all, {size}" for size in ("256 KB", "1 MB")),
    *(f"one ring, {size}" for size in ("64 KB", "1 MB")),
)
STEPS = {"decode": 20, "decode FP8": 20, "MoE": 40}
STEPS |= {f"one {call}": 200 for call in ("all_reduce", "uneven all_to_all", "ring")}
"""Of a round, by what stands before the comma; others: 5."""
ORDER_LIMIT_S = 120.0
RIVALS = ("ours", "ours-compiled", "nccl", "nccl-compiled", "symmetric", "gloo")
TOLERANCE = 0.02
"""Sums of bfloat16 may be in another order."""


def preloaded(options: argparse.Namespace) -> str | None:
    """The job that has Sennit's library in the place of NCCL, if there is one."""
    if not options.fused:
        return "sennit"
    return options.fused if options.fused.startswith("ours") else None


def variables(options: argparse.Namespace, is_sennit: bool) -> dict[str, str]:
    """What the options set in the environment of a job; the rival may be on our library, too."""
    found: dict[str, str] = {}
    if options.through_host:
        found |= {"SENNIT_PATHS": "host", "NCCL_P2P_DISABLE": "1"}
    if options.codec and is_sennit:
        found["SENNIT_CODEC"] = options.codec
    if options.gpus < options.ranks and not is_sennit:
        # NCCL 2.30 then takes two ranks of a GPU; its kernels have to be resident together.
        blocks = str(max(1, 16 * options.gpus // options.ranks))
        found |= {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_MAX_CTAS": blocks}
        found["NCCL_NVLS_ENABLE"] = "0"
    return found


@contextlib.contextmanager
def service(wanted: bool) -> Iterator[None]:
    """CUDA's Multi-Process Service with folders of its own, for what starts meanwhile."""
    if not wanted:
        yield
        return
    control = ["nvidia-cuda-mps-control"]
    with tempfile.TemporaryDirectory(prefix="sennit-mps-") as folder:
        mine = dict.fromkeys(("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"), folder)
        before = {name: os.environ.get(name) for name in mine}
        os.environ.update(mine)
        try:
            subprocess.run([*control, "-d"], check=True)
            yield
        finally:
            subprocess.run(control, input="quit\n", text=True, check=False, timeout=30)
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@contextlib.contextmanager
def jobs(options: argparse.Namespace) -> Iterator[dict[str, Job]]:
    """A job for each library; both start at once."""
    on_gpus = options.device == "cuda"
    rival = options.fused or options.rival or ("nccl" if on_gpus else "gloo")
    ours = "sennit" if options.fused or not on_gpus else "nccl"
    backends = {"sennit": ours, rival: "gloo" if rival == "gloo" else "nccl"}
    ways = {"sennit": "one call"} if options.fused else {}
    ways |= {"symmetric": "symmetric memory"}
    ways |= {f"{library}-compiled": "compiled" for library in ("ours", "nccl")}
    with (
        tempfile.TemporaryDirectory(prefix="sennit-programs-") as root,
        contextlib.ExitStack() as stack,
    ):
        made = {}
        for name, backend in backends.items():
            folder = Path(root) / name
            folder.mkdir()
            command = [sys.executable, str(Path(__file__).with_name("program_rank.py"))]
            command += ["--backend", backend, "--store", str(folder / "store")]
            command += ["--device", options.device, "--gpus", str(options.gpus)]
            command += ["--way", ways.get(name, "three calls")]
            library = options.ours if on_gpus and name == preloaded(options) else None
            job = Job(folder, options.ranks, command, variables(options, name == "sennit"))
            made[name] = stack.enter_context(job).start(library, None if on_gpus else 1)
        yield made


def measured(running: dict[str, Job], program: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a program."""

    def order(name: str, what: str, **words: Any) -> list[dict[str, Any]]:
        return running[name].order(what, ORDER_LIMIT_S, **words)

    usual = 1 if options.device == "cpu" else STEPS.get(program.partition(",")[0], 5)
    steps = options.steps or usual
    for name in running:
        order(name, "build", program=program)
    # The first step after the model has been made, on both sides.
    results = {name: [one["result"] for one in order(name, "steps", count=1)] for name in running}
    for name in running:
        order(name, "steps", count=steps)
    times: dict[str, list[float]] = {name: [] for name in running}
    ends: dict[str, list[float]] = {}
    for index in range(options.rounds):
        for name in running if index % 2 == 0 else reversed(running):
            answers = order(name, "steps", count=steps)
            times[name].append(1e3 * max(one["elapsed_s"] for one in answers) / steps)
            ends[name] = [one["result"] for one in answers]
    profiles = {name: order(name, "profile") for name in running}
    for name in running:
        order(name, "drop")
    row: dict[str, Any] = {"program": program, "ranks": options.ranks, "device": options.device}
    row |= {"rounds": options.rounds, "steps": steps, "rival": list(running)[1]}
    if options.gpus < options.ranks:
        row |= {"gpus": options.gpus, "mps": options.mps}
    for name, prefix in zip(running, ("", "rival_"), strict=True):
        row[f"{prefix}ms_a_step"] = statistics.median(times[name])
        row[f"{prefix}ms_range"] = [min(times[name]), max(times[name])]
        for key in profiles[name][0]:
            row[f"{prefix}profile_{key}"] = max(one[key] for one in profiles[name])
    row["ratio"] = row["rival_ms_a_step"] / row["ms_a_step"]
    row["results"] = results
    if options.codec:
        pairs = zip(*ends.values(), strict=True)
        row |= {"codec": options.codec, "error": max(abs(a - b) / abs(b) for a, b in pairs)}
    row["faults"] = faults(*results.values())
    return row


def faults(ours: list[float], theirs: list[float]) -> list[str]:
    """What shows that a row cannot be right."""
    pairs = zip(ours, theirs, strict=True)
    return [
        f"rank {rank} has {our} on Sennit and {other} on the rival"
        for rank, (our, other) in enumerate(pairs)
        if not math.isfinite(our) or not abs(our - other) <= TOLERANCE * abs(other)
    ]


def run_all(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """Fill the document, row by row, as far as the time goes.

    Raises:
        JobFailed: A rank failed; the rows before it are in the document.
    """
    begin = time.monotonic()
    with service(options.mps), jobs(options) as running:
        about = {name: job.order("about", ORDER_LIMIT_S)[0] for name, job in running.items()}
        document["versions"] = about["sennit"]
        for program in options.program or PROGRAMS:
            if options.fused and not program.startswith("decode"):
                continue
            if time.monotonic() - begin > options.limit_s:
                document["not_run"].append(program)
                continue
            row = measured(running, program, options)
            document["rows"].append(row)
            print(
                f"{program:18} {row['ms_a_step']:9.3f} ms, {row['rival']} "
                f"{row['rival_ms_a_step']:9.3f}, ratio {row['ratio']:.3f}",
                *row["faults"],
                flush=True,
            )
        for job in running.values():
            job.end(ORDER_LIMIT_S)
        if options.device == "cuda":
            document["preloaded"] = preloaded(options)
            document["ran_on_sennit"] = {name: job.share() for name, job in running.items()}


def passed(document: dict[str, Any]) -> bool:
    """Whether each library ran in its job and in no other, and no row has faults."""
    shares = document.get("ran_on_sennit", {})
    as_named = all(
        (share["calls"] > 0 and share["passed_on"] == 0) == (name == document["preloaded"])
        for name, share in shares.items()
    )
    return (
        as_named and bool(document["rows"]) and not any(row["faults"] for row in document["rows"])
    )


def main() -> int:
    """Run, write the file, and give the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ours", type=Path, help="Sennit's libnccl.so.2, for GPUs")
    parser.add_argument("--fused", choices=RIVALS, metavar="RIVAL")
    parser.add_argument("--codec", help="of Sennit's calls, as in SENNIT_CODEC")
    parser.add_argument("--through-host", action="store_true", help="on GPUs: without P2P")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--gpus", type=int, help="that the ranks share; default: one each")
    parser.add_argument("--rival", choices=("nccl", "gloo"), help="on GPUs; default: nccl")
    parser.add_argument("--mps", action="store_true", help="with --gpus: under the service")
    parser.add_argument("--steps", type=int, help="of a round; default: by the program")
    parser.add_argument("--program", choices=PROGRAMS, action="append", help="default: all")
    parser.add_argument("--rounds", type=int, default=11, help="of each library")
    parser.add_argument("--limit-s", type=float, default=300, help="no program starts later")
    options = parser.parse_args()
    needs_ours = not options.fused or options.fused.startswith("ours")
    if options.device == "cuda" and options.ours is None and needs_ours:
        parser.error("--ours names Sennit's libnccl.so.2 for GPUs")
    if options.fused and (options.fused == "gloo") != (options.device == "cpu"):
        parser.error("--fused gloo is for --device cpu, and the others are for cuda")
    if options.through_host and options.device == "cpu":
        parser.error("--through-host is for --device cuda")
    if options.through_host and options.fused == "symmetric":
        parser.error("--fused symmetric reads the memory of other GPUs")
    if options.rival and (options.fused or options.device == "cpu"):
        parser.error("--rival is for --device cuda without --fused")
    if options.mps and (options.gpus is None or options.device == "cpu"):
        parser.error("--mps is for ranks that share GPUs: say with --gpus how many there are")
    options.gpus = options.gpus or options.ranks
    document: dict[str, Any] = {"rows": [], "not_run": []}
    code = 0
    try:
        run_all(options, document)
        document["passed"] = passed(document)
        code = 0 if document["passed"] else 1
    except JobFailed as failure:
        document |= {"passed": False, "failure": str(failure)}
        print(failure, file=sys.stderr)
        code = 3
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
