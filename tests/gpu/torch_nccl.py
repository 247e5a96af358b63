"""Runs jobs of torch.distributed over this library and over NVIDIA's NCCL, and compares them.

    python3 tests/gpu/torch_nccl.py --ours LIB --out FILE [--ranks N] [--limit-s S]
        [--part operations|killed|left|training]

LIB is preloaded in the one run and not in the other. Each case of each rank must give the same; a
rank that is killed must be told to the others. --device cpu tries the script itself, over Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PARTS = ("operations", "killed", "left", "training")
TOLD_WITHIN_S = 30.0


# ---- Each rank ----


def libraries() -> list[str]:
    """The files that this process has loaded as NCCL."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return sorted({line.split()[-1] for line in lines if "libnccl.so" in line})


class Rank:
    """One process of a job."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch
        import torch.distributed as dist

        self.dist = dist
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.folder = Path(options.folder)
        self.backend = "gloo" if options.device == "cpu" else "nccl"
        self.device = torch.device("cpu")
        if options.device != "cpu":
            self.device = torch.device("cuda", self.rank)
            torch.cuda.set_device(self.device)

    def join(self, name: str, *, size: int | None = None, eager: bool = False) -> None:
        """Makes the group of all ranks; `eager`: now and without blocking, not at first use."""
        store = self.dist.FileStore(str(self.folder / f"store-{name}"), size or self.size)
        self.dist.init_process_group(
            self.backend,
            store=store,
            rank=self.rank,
            world_size=size or self.size,
            device_id=self.device if eager and self.device.type == "cuda" else None,
        )

    def operations(self) -> None:
        """All cases on the world, some on other groups and in groups that are made again."""
        import torch
        from torch_cases import Cases, outcome

        results: dict[str, Any] = {}

        def take(prefix: str, cases: Any) -> None:
            for name, case in cases:
                results[f"{prefix}: {name}"] = outcome(case)

        self.join("first")
        take("world", Cases(self.device).all())
        for members in ([0, 1], [2, 3], [0, 2, 3], [0, 1, 2, 3]):
            if max(members) >= self.size:
                continue
            group = self.dist.new_group(members)
            if self.rank in members:
                take(f"group {members}", Cases(self.device, group).basic())
                self.dist.destroy_process_group(group)
        take("world, after its groups", Cases(self.device).basic())
        self.dist.destroy_process_group()
        for attempt in range(2):
            self.join(f"again-{attempt}", eager=True)
            take(f"made again, {attempt}", Cases(self.device).basic())
            if self.device.type == "cuda":
                half = self.dist.split_group(split_ranks=[[0, 1], [2, 3]][: self.size // 2])
                take(f"split, {attempt}", Cases(self.device, half).basic())
            self.dist.destroy_process_group()
        torch.save({"results": results, "libraries": libraries()}, self.folder / f"{self.rank}.pt")

    def training(self) -> None:
        """Some models, to be compared by their losses."""
        from torch_training import run_all

        self.join("training")
        run_all(self.device, self.folder)
        self.dist.destroy_process_group()

    def left(self) -> None:
        """Ends without destroying what it has, as many programs do."""
        import torch

        self.join("left")
        self.dist.all_reduce(torch.ones(1000, device=self.device))
        self.dist.barrier()

    def killed(self) -> None:
        """The last rank dies while the others call it; they are told, and go on without it."""
        import torch

        self.join("doomed")
        x = torch.ones(1 << 20, device=self.device)
        self.dist.all_reduce(x)
        self.dist.barrier()
        death = self.folder / "death"
        if self.rank == self.size - 1:
            death.write_text(str(time.monotonic()), encoding="utf-8")
            os.kill(os.getpid(), signal.SIGKILL)
        told: dict[str, Any] = {"rank": self.rank, "after_s": None, "error": ""}
        end = time.monotonic() + TOLD_WITHIN_S
        try:
            while time.monotonic() < end:
                self.dist.all_reduce(x)
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
        except Exception as error:  # which class is the library's and PyTorch's affair
            told["after_s"] = time.monotonic() - float(death.read_text(encoding="utf-8"))
            told["error"] = str(error)[-600:]
        self.dist.distributed_c10d._abort_process_group()
        self.join("survivors", size=self.size - 1)
        ones = torch.ones(1000, device=self.device)
        self.dist.all_reduce(ones)
        told["survivors_sum"] = ones.sum().item() / 1000
        text = json.dumps(told)
        (self.folder / f"told-{self.rank}.json").write_text(text, encoding="utf-8")
        self.dist.destroy_process_group()


# ---- The job ----


def environment(options: argparse.Namespace, library: Path | None, rank: int) -> dict[str, str]:
    """What one rank is started with."""
    env = dict(os.environ)
    env.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(rank))
    # What PyTorch records of its calls, and no watchdog that ends the process first.
    env.update(TORCH_FR_BUFFER_SIZE="20000", TORCH_NCCL_TRACE_BUFFER_SIZE="20000")
    env.update(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="0")
    if library is not None:
        env["LD_PRELOAD"] = str(library)
    return env


def run_job(
    options: argparse.Namespace, part: str, library: Path | None, folder: Path, limit_s: float
) -> dict[str, Any]:
    """Runs all ranks of a part; how each ended, and what it wrote."""
    own = [sys.executable, __file__, "--rank-of", part, "--folder", str(folder)]
    processes = []
    for rank in range(options.ranks):
        with (folder / f"{rank}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [*own, "--device", options.device],
                    env=environment(options, library, rank),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    end = time.monotonic() + limit_s
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        time.sleep(0.1)
    codes = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    logs = [(folder / f"{rank}.log").read_text(errors="replace") for rank in range(options.ranks)]
    return {"exit_codes": codes, "logs": logs}


def both(options: argparse.Namespace, part: str, root: Path) -> tuple[dict[str, Any], bool]:
    """Runs a part over both libraries; whether all ranks of both came to their end."""
    jobs = {}
    for name, library in (("ours", options.ours), ("nvidia", None)):
        (root / name).mkdir()
        jobs[name] = run_job(options, part, library, root / name, options.limit_s)
    return jobs, all(job["exit_codes"] == [0] * options.ranks for job in jobs.values())


def compare_operations(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Each case of each rank, over both libraries."""
    jobs, ended = both(options, "operations", root)
    if not ended:
        return failure(jobs)
    import torch

    same, differing, loaded = 0, [], set()
    for rank in range(options.ranks):
        ours, theirs = (torch.load(root / name / f"{rank}.pt") for name in ("ours", "nvidia"))
        loaded |= set(ours["libraries"])
        for name, expected in theirs["results"].items():
            found = ours["results"].get(name)
            if is_same(found, expected):
                same += 1
            else:
                differing.append({"rank": rank, "case": name, **difference(found, expected)})
    return {
        "passed": not differing and same > 0,
        "same": same,
        "differing": differing,
        "libraries": sorted(loaded),
    }


def is_same(found: Any, expected: Any) -> bool:
    """Equal to the bit; where NCCL itself fails, both must."""
    if isinstance(expected, str) or isinstance(found, str) or found is None:
        return isinstance(expected, str) and isinstance(found, str)
    pairs = list(zip(found, expected, strict=True))
    return all(bool((a == b).all()) and a.dtype == b.dtype for a, b in pairs)


def difference(found: Any, expected: Any) -> dict[str, str]:
    """Both outcomes, short."""

    def text(outcome: Any) -> str:
        if isinstance(outcome, str) or outcome is None:
            return str(outcome)[-400:]
        return str([tensor.flatten()[:4].tolist() for tensor in outcome])[:200]

    return {"ours": text(found), "nvidia": text(expected)}


def compare_training(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Losses step by step, over both libraries."""
    jobs, ended = both(options, "training", root)
    if not ended:
        return failure(jobs)
    ours, theirs = (
        json.loads((root / name / "training.json").read_text(encoding="utf-8"))
        for name in ("ours", "nvidia")
    )
    models: dict[str, Any] = {}
    for name in ours:
        if "losses" not in ours[name]:
            continue
        pairs = list(zip(ours[name]["losses"], theirs[name]["losses"], strict=True))
        models[name] = {
            "steps": len(pairs),
            "first_and_last_loss": [pairs[0][0], pairs[-1][0]],
            "largest_relative_difference": max(abs(a - b) / abs(b) for a, b in pairs),
            "ms_a_step": ours[name]["ms_a_step"],
            "nvidia_ms_a_step": theirs[name]["ms_a_step"],
            "kernels_of_communication": ours[name].get("kernels"),
        }
    # Sums of another order differ in the last place, and training makes more of it.
    passed = all(m["largest_relative_difference"] < 1e-2 for m in models.values())
    return {
        "passed": passed and bool(models),
        "models": models,
        "handed_to_nccl": ours.get("handed to NCCL"),
    }


def check_killed(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """That every survivor was told, and could go on."""
    job = run_job(options, "killed", options.ours, root, options.limit_s)
    if job["exit_codes"] != [0] * (options.ranks - 1) + [-signal.SIGKILL]:
        return failure({"ours": job})
    told = [
        json.loads((root / f"told-{rank}.json").read_text(encoding="utf-8"))
        for rank in range(options.ranks - 1)
    ]
    passed = all(t["after_s"] is not None and t["survivors_sum"] == options.ranks - 1 for t in told)
    return {"passed": passed, "told": told}


def check_left(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """That programs end well that destroy nothing."""
    job = run_job(options, "left", options.ours, root, options.limit_s)
    ended = job["exit_codes"] == [0] * options.ranks
    return {"passed": True} if ended else failure({"ours": job})


def failure(jobs: dict[str, Any]) -> dict[str, Any]:
    """What is left of jobs that did not end well."""
    return {
        "passed": False,
        "jobs": {
            name: {"exit_codes": job["exit_codes"], "logs": [log[-1200:] for log in job["logs"]]}
            for name, job in jobs.items()
        },
    }


def show(part: str, result: dict[str, Any], elapsed_s: float) -> None:
    """A few lines of a part."""
    print(f"torch {part}: {'passed' if result['passed'] else 'FAILED'} in {elapsed_s:.0f} s")
    for key in ("same", "libraries", "handed_to_nccl"):
        if key in result:
            print(f"  {key}: {result[key]}")
    for entry in [*result.get("differing", [])[:40], *result.get("told", [])]:
        print(f"  {json.dumps(entry)[:700]}")
    for name, model in result.get("models", {}).items():
        print(f"  {name}: {json.dumps(model)}")
    for name, job in result.get("jobs", {}).items():
        print(f"  {name}: exit codes {job['exit_codes']}")
        for log in job["logs"]:
            print("    " + log[-700:].replace("\n", "\n    "))


def main() -> None:
    """Runs the parts and writes one JSON file; or is one rank of a part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit-s", type=float, default=90, help="of one job")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rank-of", choices=PARTS)
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.rank_of:
        getattr(Rank(options), options.rank_of)()
        return
    checks = {
        "operations": compare_operations,
        "killed": check_killed,
        "left": check_left,
        "training": compare_training,
    }
    results = {}
    for part in options.part or PARTS:
        since = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            results[part] = checks[part](options, Path(folder))
        show(part, results[part], time.monotonic() - since)
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if all(result["passed"] for result in results.values()) else 1)


if __name__ == "__main__":
    main()
