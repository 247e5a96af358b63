"""Trains image classifiers with DistributedDataParallel over Sennit and over a rival in turns.

    python3 bench/ddp/train.py --out FILE --device cuda --ours LIB [--ranks N]
    python3 bench/ddp/train.py --out FILE --device cpu [--rival gloo|none]

LIB is Sennit's libnccl.so.2, which is preloaded; the rival on GPUs is NCCL. Each library has a job
of its own, and both lie on the same devices all the time; only one has orders at a time, some steps
each, so that both meet the same state of the machine. The data are noise. On CPU ranks every
message is counted where PyTorch hands it to Sennit, in steps that are not timed; on GPUs the
messages are DDP's list of its buckets, and their bytes must be among those that Sennit has counted.

FILE gets one row for each model and size of DDP's buckets. Exit code 1: a row has faults; 3: a rank
failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jobs import Job, JobFailed

MODELS = ("vgg16", "resnet50", "resnet152", "densenet201")
BUCKETS_MB = (25, 64, 256, 1024)
RIVALS = {"cuda": ("nccl", "none"), "cpu": ("gloo", "none")}
GRADIENT_BYTES = 4
"""Parameters and gradients are float32, also where operations are computed in bfloat16."""
ORDER_LIMIT_S = 120.0
WIDTHS = (12, 7, 10, 10, 7)

Rows = list[dict[str, Any]]


def combinations(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What is trained; all models with one size of buckets before the next size."""
    for bucket_mb in options.bucket_mb or BUCKETS_MB:
        for model in options.model or MODELS:
            yield {"model": model, "bucket_mb": bucket_mb}


@contextlib.contextmanager
def jobs(options: argparse.Namespace) -> Iterator[dict[str, Job]]:
    """A job for each library; both start at once."""
    on_gpus = options.device == "cuda"
    backends = {"sennit": "nccl" if on_gpus else "sennit"}
    if options.rival != "none":
        backends[options.rival] = options.rival
    threads = None if on_gpus else max(1, len(os.sched_getaffinity(0)) // options.ranks)
    with tempfile.TemporaryDirectory(prefix="sennit-ddp-") as root, contextlib.ExitStack() as stack:
        made = {}
        for name, backend in backends.items():
            folder = Path(root) / name
            folder.mkdir()
            command = [sys.executable, str(Path(__file__).with_name("rank.py"))]
            command += ["--backend", backend, "--compute", options.compute]
            job = Job(folder, options.ranks, [*command, "--store", str(folder / "store")])
            library = options.ours if on_gpus and name == "sennit" else None
            made[name] = stack.enter_context(job).start(library, threads)
        yield made


def in_turns(round_index: int, running: dict[str, Job]) -> list[str]:
    """The libraries, each first in every other round."""
    names = list(running)
    return names if round_index % 2 == 0 else names[::-1]


def measured(
    running: dict[str, Job], combination: dict[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """The row of one model and size of buckets."""

    def order(name: str, what: str, **words: Any) -> list[dict[str, Any]]:
        return running[name].order(what, ORDER_LIMIT_S, **words)

    batch = {"images": options.images, "edge": options.edge}
    built = {name: order(name, "build", **combination, **batch) for name in running}
    first = {name: order(name, "steps", count=1, counted=True) for name in running}
    # DDP has put its buckets into the order in which gradients come by now.
    warm = {name: order(name, "steps", count=options.warmup) for name in running}
    one = {name: order(name, "steps", count=1, counted=True) for name in running}
    times: dict[str, list[float]] = {name: [] for name in running}
    for index in range(options.rounds):
        for name in in_turns(index, running):
            answers = order(name, "steps", count=options.iterations)
            times[name].append(max(answer["elapsed_s"] for answer in answers))
    dropped = {name: order(name, "drop") for name in running}
    asked = ("ranks", "device", "compute", "rounds", "iterations", "rival")
    row = {**combination, **batch, **{name: getattr(options, name) for name in asked}}
    row["parameters"] = built["sennit"][0]["parameters"]
    row["buckets"] = dropped["sennit"][0]["buckets"]
    row["messages"] = messages(first["sennit"][0], one["sennit"][0], row["buckets"])
    for name in running:
        row |= speeds("" if name == "sennit" else "rival_", times[name], row)
    if "rival_ms_a_step" in row:
        row["ratio"] = row["rival_ms_a_step"] / row["ms_a_step"]
    row["losses"] = {
        name: statistics.fmean(answer["loss"] for answer in answers)
        for name, answers in warm.items()
    }
    row["faults"] = faults(row, dropped)
    return row


def messages(first: dict[str, Any], later: dict[str, Any], buckets: list[int]) -> dict[str, Any]:
    """Sizes and how many of each, in the first step and in a later one, by collective."""
    if later["messages"]:
        return {
            "counted_by": "sennit",
            "first_step": first["messages"],
            "step": later["messages"],
        }
    return {"counted_by": "ddp", "step": {"all_reduce": Counter(map(str, buckets))}}


def speeds(prefix: str, times_s: list[float], row: dict[str, Any]) -> dict[str, Any]:
    """Of the median round, and of the fastest and slowest."""
    images = row["ranks"] * row["images"] * row["iterations"]
    return {
        f"{prefix}images_per_s": images / statistics.median(times_s),
        f"{prefix}images_per_s_range": [images / max(times_s), images / min(times_s)],
        f"{prefix}ms_a_step": 1e3 * statistics.median(times_s) / row["iterations"],
    }


def faults(row: dict[str, Any], dropped: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What shows that a row cannot be right."""
    found = []
    for name, answers in dropped.items():
        # Libraries promise that all ranks get the same bits of an all_reduce.
        if len({answer["checksum"] for answer in answers}) > 1:
            found.append(f"{name}: the ranks have come to different parameters")
    losses = row["losses"]
    ours, theirs = losses["sennit"], losses.get(row["rival"], losses["sennit"])
    if not math.isfinite(ours) or not abs(ours - theirs) <= 0.1 * abs(theirs):
        found.append(f"the losses are {losses}")
    sizes = row["messages"]["step"]["all_reduce"]
    sent = sum(int(size) * count for size, count in sizes.items())
    if sizes and sent != GRADIENT_BYTES * row["parameters"]:
        found.append(f"{sent} bytes were reduced for {row['parameters']} gradients of 4 bytes")
    return found


def show(row: dict[str, Any], widths: tuple[int, ...] = WIDTHS) -> None:
    """Print a line of the table, the same for a rival that is not there."""
    rival = row.get("rival_images_per_s")
    cells = [row["model"], str(row["bucket_mb"]), f"{row['images_per_s']:.1f}"]
    cells += [f"{rival:.1f}", f"{row['ratio']:.3f}"] if rival else ["-", "-"]
    sizes = row["messages"]["step"]["all_reduce"]
    messages = ", ".join(f"{count}x{int(size) / 2**20:.1f}" for size, count in sizes.items())
    line = " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    print(f"{line}  {messages}", flush=True)
    for fault in row["faults"]:
        print(f"  WRONG: {fault}", flush=True)


def train_all(options: argparse.Namespace, document: dict[str, Any]) -> None:
    """Fill the document, row by row, as far as the time goes.

    Raises:
        JobFailed: A rank failed; the rows before it are in the document.
    """
    begin = time.monotonic()
    with jobs(options) as running:
        about = {name: job.order("about", ORDER_LIMIT_S)[0] for name, job in running.items()}
        document["versions"] = about["sennit"]
        head = ("model", "bucket", "ours", options.rival, "ratio")
        print(" ".join(cell.rjust(width) for cell, width in zip(head, WIDTHS, strict=True)))
        print("images a second; all_reduce messages of a step as count x MiB", flush=True)
        longest = 0.0
        for combination in combinations(options):
            since = time.monotonic()
            if since + longest > begin + options.limit_s:
                document["not_run"].append(combination)
                continue
            document["rows"].append(measured(running, combination, options))
            show(document["rows"][-1])
            longest = max(longest, time.monotonic() - since)
        for job in running.values():
            job.end(ORDER_LIMIT_S)
        if options.device == "cuda":
            document["ran_on_sennit"] = {name: job.share() for name, job in running.items()}
    for combination in document["not_run"]:
        print(f"{combination['model']}, {combination['bucket_mb']} MB: no time was left")


def gradient_bytes(row: dict[str, Any], options: argparse.Namespace) -> int:
    """What all ranks together have had reduced for a row."""
    steps = 1 + options.warmup + 1 + options.rounds * options.iterations
    return int(GRADIENT_BYTES * row["parameters"] * row["ranks"] * steps)


def passed(options: argparse.Namespace, document: dict[str, Any]) -> bool:
    """Whether each library ran in its job and in no other, and no row has faults.

    CPU ranks name their backend; on GPUs both libraries are called NCCL.
    """
    rows = document["rows"]
    shares = document.get("ran_on_sennit", {})
    reduced = sum(gradient_bytes(row, options) for row in rows)
    as_named = all(
        share["bytes"] >= reduced if name == "sennit" else share["calls"] == 0
        for name, share in shares.items()
    )
    return as_named and bool(rows) and not any(row["faults"] for row in rows)


def options_of(arguments: list[str]) -> argparse.Namespace:
    """The command line; on CPU ranks the defaults are small."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--ours", type=Path, help="Sennit's libnccl.so.2, for GPUs")
    parser.add_argument("--rival", choices=("nccl", "gloo", "none"), help="default: none on CPUs")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--model", choices=MODELS, action="append", help="default: all")
    parser.add_argument("--bucket-mb", type=int, action="append", help=f"default: {BUCKETS_MB}")
    parser.add_argument("--compute", choices=("float32", "bfloat16"))
    parser.add_argument("--images", type=int, help="a rank and step")
    parser.add_argument("--edge", type=int, help="of an image, in pixels")
    parser.add_argument("--warmup", type=int, help="steps after the first")
    parser.add_argument("--iterations", type=int, help="steps of a round")
    parser.add_argument("--rounds", type=int, help="of each library")
    parser.add_argument("--limit-s", type=float, default=180, help="of all")
    options = parser.parse_args(arguments)
    on_gpus = {"ranks": 4, "compute": "bfloat16", "images": 32, "edge": 224, "warmup": 4}
    on_gpus |= {"iterations": 5, "rounds": 4, "rival": "nccl"}
    on_cpus = {"ranks": 2, "compute": "float32", "images": 2, "edge": 32, "warmup": 1}
    on_cpus |= {"iterations": 1, "rounds": 1, "rival": "none"}
    for name, value in (on_gpus if options.device == "cuda" else on_cpus).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rival not in RIVALS[options.device]:
        parser.error(f"{options.rival} is no rival on {options.device}")
    if options.device == "cuda" and options.ours is None:
        parser.error("--ours names Sennit's libnccl.so.2 for GPUs")
    return options


def main() -> int:
    """Run, write the file, and give the exit code."""
    options = options_of(sys.argv[1:])
    document: dict[str, Any] = {"rows": [], "not_run": []}
    code = 0
    try:
        train_all(options, document)
        document["passed"] = passed(options, document)
        code = 0 if document["passed"] else 1
    except JobFailed as failure:
        document |= {"passed": False, "failure": str(failure)}
        print(failure, file=sys.stderr)
        code = 3
    options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
