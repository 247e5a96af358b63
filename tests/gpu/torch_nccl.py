"""Runs jobs of torch.distributed over this library and over NVIDIA's NCCL, and compares them.

    python3 tests/gpu/torch_nccl.py --ours LIB --out FILE [--ranks N] [--limit-s S] [--steps N]
        [--against nccl|gloo] [--part operations|streams|memory|groups|killed|left|training]...

LIB is preloaded in the one run and not in the other. Each case of each rank must give the same; a
rank that is killed must be reported to the others. A rank writes down each case as it begins, so
that one that crashes is known. --against gloo, of CPU ranks, is for more ranks than GPUs, which
NCCL refuses. --device cpu tries the script itself, over Gloo.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

SUITES = ("operations", "streams", "memory", "groups")
PARTS = (*SUITES, "killed", "left", "training")
TOLD_WITHIN_S = 30.0
# What Gloo refuses, as of PyTorch 2.11; of bools it adds the bytes, so that True becomes another
# byte than 1.
NOT_IN_GLOO = (
    *("all_gather uneven", "all_to_all", "premul_sum", "premul_sum of a tensor"),
    *("coalesced all_gather_into_tensor", "coalesced all_reduce", "all_reduce of torch.bool"),
)
# What NCCL's results are called in PyTorch's texts.
RESULT = re.compile(r"\bnccl(UnhandledCuda|System|Internal|Remote)Error\b|\bncclInvalid\w+")
SHARE = re.compile(r"ends: (\d+) calls of (\d+) bytes ran on Sennit, (\d+) were passed on")


# ---- Each rank ----


def libraries() -> list[str]:
    """The files that this process has loaded as NCCL; of ours, that it was preloaded."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    files = {line.split()[-1] for line in lines if "libnccl.so" in line}
    preloaded = os.environ.get("LD_PRELOAD")
    return sorted("the preloaded one" if file == preloaded else file for file in files)


class Rank:
    """One process of a job."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch
        import torch.distributed as dist

        self.dist = dist
        self.rank = int(os.environ["RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.folder = Path(options.folder)
        self.steps = options.steps
        self.backend = "gloo" if options.device == "cpu" else "nccl"
        self.device = torch.device("cpu")
        if options.device != "cpu":
            self.device = torch.device("cuda", self.rank % torch.cuda.device_count())
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

    def take(self, prefix: str, cases: Any) -> None:
        """Runs cases and writes down what each gives."""
        from torch_cases import outcome

        with (self.folder / f"{self.rank}.jsonl").open("a", encoding="utf-8") as file:

            def write(entry: dict[str, Any]) -> None:
                file.write(json.dumps(entry) + "\n")
                file.flush()

            for name, case in cases:
                write({"begins": f"{prefix}: {name}"})
                write({"case": f"{prefix}: {name}", "outcome": outcome(case)})
            write({"libraries": libraries()})

    def suite(self, name: str) -> None:
        """A suite of cases on the world."""
        from torch_cases import Cases

        self.join(name)
        self.take("world", getattr(Cases(self.device), name)())
        self.dist.destroy_process_group()

    def operations(self) -> None:
        self.suite("operations")

    def streams(self) -> None:
        self.suite("streams")

    def memory(self) -> None:
        self.suite("memory")

    def groups(self) -> None:
        """A few cases on groups of ranks, and on groups that are made again."""
        from torch_cases import Cases

        self.join("first")
        for members in ([0, 1], [2, 3], [0, 2, 3], [0, 1, 2, 3]):
            if max(members) >= self.size:
                continue
            group = self.dist.new_group(members)
            if self.rank in members:
                self.take(f"group {members}", Cases(self.device, group).basic())
                self.dist.destroy_process_group(group)
        self.take("world, after its groups", Cases(self.device).basic())
        self.dist.destroy_process_group()
        for attempt in range(2):
            self.join(f"again-{attempt}", eager=True)
            self.take(f"made again, {attempt}", Cases(self.device).basic())
            self.dist.destroy_process_group()

    def training(self) -> None:
        """Some models, to be compared by their losses."""
        from torch_training import run_all

        self.join("training")
        run_all(self.device, self.folder, self.steps)
        self.dist.destroy_process_group()

    def left(self) -> None:
        """Ends without destroying what it has, as many programs do."""
        import torch

        self.join("left")
        self.dist.all_reduce(torch.ones(1000, device=self.device))
        self.dist.barrier()

    def killed(self) -> None:
        """The last rank dies while the others call it; they get an error, and go on without it."""
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


def environment(
    options: argparse.Namespace, part: str, library: Path | None, rank: int, folder: Path
) -> dict[str, str]:
    """What one rank is started with."""
    env = dict(os.environ)
    env["PYTHONFAULTHANDLER"] = "1"  # a crash says where it was
    env.update(SENNIT_DEBUG="INFO", SENNIT_DEBUG_SUBSYS="nccl")
    env["SENNIT_DEBUG_FILE"] = str(folder / f"sennit-{rank}.log")
    env.update(RANK=str(rank), WORLD_SIZE=str(options.ranks), LOCAL_RANK=str(rank))
    if part == "training":  # what PyTorch records of its calls; it keeps their events
        env["TORCH_FR_BUFFER_SIZE"] = "20000"
    # No watchdog that ends the process first.
    env.update(TORCH_NCCL_ASYNC_ERROR_HANDLING="0", TORCH_NCCL_ENABLE_MONITORING="0")
    if library is not None:
        env["LD_PRELOAD"] = str(library)
    return env


def run_job(
    options: argparse.Namespace, part: str, library: Path | None, folder: Path
) -> dict[str, Any]:
    """Runs all ranks of a part; how each ended, and what it wrote."""
    own = [sys.executable, __file__, "--rank-of", part, "--folder", str(folder)]
    own += ["--steps", str(options.steps)]
    is_gloo = library is None and options.against == "gloo"
    own += ["--device", "cpu" if is_gloo else options.device]
    processes = []
    for rank in range(options.ranks):
        with (folder / f"{rank}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    own,
                    env=environment(options, part, library, rank, folder),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    end = time.monotonic() + options.limit_s
    while time.monotonic() < end and any(process.poll() is None for process in processes):
        time.sleep(0.1)
    codes = [process.poll() for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    logs = [(folder / f"{rank}.log").read_text(errors="replace") for rank in range(options.ranks)]
    return {
        "exit_codes": codes,
        "logs": logs,
        "ended": codes == [0] * options.ranks,
        "share": share(folder),
    }


def share(folder: Path) -> dict[str, int]:
    """Calls and bytes, as the library counts them at the end of each communicator of each rank."""
    total = {"calls": 0, "bytes": 0, "passed_on": 0}
    for log in folder.glob("sennit-*.log"):
        for found in SHARE.findall(log.read_text(errors="replace")):
            for key, number in zip(total, found, strict=True):
                total[key] += int(number)
    return total


def ran_as_named(options: argparse.Namespace, jobs: dict[str, Any]) -> bool:
    """Whether Sennit ran in our job and in no other: else the comparison is of NCCL with itself."""
    return options.device == "cpu" or all(
        (job["share"]["calls"] > 0) == (name == "ours") for name, job in jobs.items()
    )


def both(options: argparse.Namespace, part: str, root: Path) -> dict[str, Any]:
    """Runs a part over both libraries."""
    jobs = {}
    for name, library in (("ours", options.ours), ("theirs", None)):
        (root / name).mkdir()
        jobs[name] = run_job(options, part, library, root / name)
    return jobs


def written(folder: Path, rank: int) -> tuple[dict[str, Any], str | None, list[str]]:
    """A rank's cases, the one in which it stopped if it did, and the libraries it had loaded."""
    cases: dict[str, Any] = {}
    begun: str | None = None
    loaded: list[str] = []
    path = folder / f"{rank}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        entry = json.loads(line)
        begun = entry.get("begins", begun)
        loaded = entry.get("libraries", loaded)
        if "case" in entry:
            cases[entry["case"]] = entry["outcome"]
    return cases, begun if begun not in cases else None, loaded


def compare_cases(options: argparse.Namespace, part: str, root: Path) -> dict[str, Any]:
    """Each case of each rank, over both libraries; of the other one's run what there is of it."""
    jobs = both(options, part, root)
    same, failing_in_both, differing, stopped = 0, set(), [], []
    not_in_gloo: set[str] = set()
    loaded: set[str] = set()
    for rank in range(options.ranks):
        ours, our_stop, our_files = written(root / "ours", rank)
        theirs, their_stop, _ = written(root / "theirs", rank)
        loaded |= set(our_files)
        for name, stop in (("ours", our_stop), ("theirs", their_stop)):
            stopped += [{"library": name, "rank": rank, "in": stop}] if stop else []
        for name, expected in theirs.items():
            found = ours.get(name)
            if options.against == "gloo" and is_ours_alone(name, found, expected):
                not_in_gloo.add(name)
            elif is_same(found, expected):
                same += 1
                failing_in_both |= {f"{name}: {expected}"} if isinstance(expected, str) else set()
            else:
                differing.append({"rank": rank, "case": name, **difference(found, expected)})
    result = {
        "passed": not differing
        and same > 0
        and jobs["ours"]["ended"]
        and ran_as_named(options, jobs),
        "same": same,
        "failing_in_both": sorted(failing_in_both),
        "not_in_gloo": sorted(not_in_gloo),
        "differing": differing,
        "stopped": stopped,
        "libraries": sorted(loaded),
        "ran_on_sennit": jobs["ours"]["share"],
        "ran_as_named": ran_as_named(options, jobs),
    }
    if not all(job["ended"] for job in jobs.values()):
        result["jobs"] = failure(jobs)["jobs"]
    return result


def is_ours_alone(name: str, found: Any, expected: Any) -> bool:
    """Whether a case has no outcome of Gloo to be compared with."""
    is_expected = name.removeprefix("world: ") in NOT_IN_GLOO
    return is_expected and isinstance(found, list) and found != expected


def is_same(found: Any, expected: Any) -> bool:
    """Equal to the bit; where NCCL itself fails, both must, with the same error."""
    if isinstance(expected, str) and isinstance(found, str):
        return error_of(found) == error_of(expected)
    return bool(found == expected)


def error_of(text: str) -> tuple[str, str]:
    """Its class and NCCL's name of it; of one that is PyTorch's alone, its words."""
    kind, _, words = text.partition(": ")
    result = RESULT.search(words)
    return kind, result.group() if result else words


def difference(found: Any, expected: Any) -> dict[str, str]:
    """Both outcomes, short."""
    return {"ours": str(found)[-400:], "theirs": str(expected)[-400:]}


def compare_losses(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """A model's losses step by step: the first ones close, the last ones as low.

    Sums of another order differ in the last place, and training makes more of it.
    """
    pairs = list(zip(ours["losses"], theirs["losses"], strict=True))
    differences = [abs(a - b) / abs(b) for a, b in pairs]
    ends = [fmean(losses["losses"][-10:]) for losses in (ours, theirs)]
    return {
        "passed": max(differences[:10]) < 1e-2 and abs(ends[0] - ends[1]) < 0.1 * abs(ends[1]),
        "steps": len(pairs),
        "steps_equal_to_the_bit": sum(a == b for a, b in pairs),
        "largest_relative_difference_of_10_steps": max(differences[:10]),
        "largest_relative_difference": max(differences),
        "first_and_last_loss": [pairs[0][0], pairs[-1][0]],
        "mean_of_last_10_losses": ends[0],
        "nvidia_mean_of_last_10_losses": ends[1],
        "ms_a_step": ours["ms_a_step"],
        "nvidia_ms_a_step": theirs["ms_a_step"],
        "kernels_of_communication": ours.get("kernels"),
    }


def compare_training(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Losses of each model, over both libraries; what a job did not come to is missing."""
    jobs = both(options, "training", root)
    results: list[dict[str, Any]] = []
    for name in ("ours", "theirs"):
        path = root / name / "training.json"
        results.append(json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})
    ours, theirs = results
    models = {
        name: compare_losses(ours[name], theirs[name])
        for name in ours
        if "losses" in ours[name] and "losses" in theirs.get(name, {})
    }
    ended = all(job["ended"] for job in jobs.values())
    result = {
        "passed": ended
        and bool(models)
        and all(m["passed"] for m in models.values())
        and ran_as_named(options, jobs),
        "models": models,
        "not_run": {name: r for name, r in ours.items() if "absent" in r},
        "handed_to_nccl": ours.get("handed to NCCL"),
        "ran_on_sennit": jobs["ours"]["share"],
        "ran_as_named": ran_as_named(options, jobs),
    }
    if not ended:
        result["jobs"] = failure(jobs)["jobs"]
    return result


def check_killed(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """That every survivor got an error, and could go on."""
    job = run_job(options, "killed", options.ours, root)
    if job["exit_codes"] != [0] * (options.ranks - 1) + [-signal.SIGKILL]:
        return failure({"ours": job})
    told = [
        json.loads((root / f"told-{rank}.json").read_text(encoding="utf-8"))
        for rank in range(options.ranks - 1)
    ]
    passed = all(t["after_s"] is not None and t["survivors_sum"] == options.ranks - 1 for t in told)
    ran = ran_as_named(options, {"ours": job})
    return {"passed": passed and ran, "told": told, "ran_as_named": ran}


def check_left(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """That programs end well that destroy nothing."""
    job = run_job(options, "left", options.ours, root)
    return {"passed": True} if job["ended"] else failure({"ours": job})


def failure(jobs: dict[str, Any]) -> dict[str, Any]:
    """What is left of jobs that did not end well."""
    return {
        "passed": False,
        "jobs": {
            name: {"exit_codes": job["exit_codes"], "logs": [log[-4000:] for log in job["logs"]]}
            for name, job in jobs.items()
        },
    }


def show(part: str, result: dict[str, Any], elapsed_s: float) -> None:
    """A few lines of a part."""
    print(f"torch {part}: {'passed' if result['passed'] else 'FAILED'} in {elapsed_s:.0f} s")
    keys = ("same", "libraries", "ran_on_sennit", "ran_as_named", "handed_to_nccl", "not_run")
    for key in (*keys, "failing_in_both", "not_in_gloo"):
        if key in result:
            print(f"  {key}: {result[key]}")
    entries = (*result.get("stopped", []), *result.get("differing", [])[:40])
    for entry in (*entries, *result.get("told", [])):
        print(f"  {json.dumps(entry)[:700]}")
    for name, model in result.get("models", {}).items():
        print(f"  {name}: {json.dumps(model)}")
    for name, job in result.get("jobs", {}).items():
        print(f"  {name}: exit codes {job['exit_codes']}")
        for log in job["logs"]:
            print("    " + log[-1500:].replace("\n", "\n    "))


def main() -> None:
    """Runs the parts and writes one JSON file; or is one rank of a part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit-s", type=float, default=150, help="of one job")
    parser.add_argument("--steps", type=int, default=100, help="of training")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--against", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--rank-of", choices=PARTS)
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.rank_of:
        getattr(Rank(options), options.rank_of)()
        return
    checks = {suite: partial(compare_cases, part=suite) for suite in SUITES} | {
        "killed": check_killed,
        "left": check_left,
        "training": compare_training,
    }
    results = {}
    for part in options.part or PARTS:
        since = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            results[part] = checks[part](options, root=Path(folder))
        show(part, results[part], time.monotonic() - since)
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    raise SystemExit(0 if all(result["passed"] for result in results.values()) else 1)


if __name__ == "__main__":
    main()
