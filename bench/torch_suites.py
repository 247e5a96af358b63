"""Which of PyTorch's own tests pass with the backend sennit, and which with Gloo.

    python3 bench/torch_suites.py [--json FILE] [--work FOLDER] [--limit-s S] FILE...

FILE is a file of tests of PyTorch, or of a port of them to another device, from a folder outside of
this repository; `wheel` is distributed_test of the PyTorch that is here. Each runs with both
backends one after the other, on CPUs (bench/torch_suite_file.py), with WORLD_SIZE ranks (4 where it
is not set) unless the test says how many. A row has the tests that made a group: how many passed,
failed and were skipped with each backend, and the names of those that pass with Gloo alone. Needs
`pip install expecttest` besides PyTorch. What a test printed stays in the folder.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BACKENDS = ("gloo", "sennit")


def main() -> None:
    """Run the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", type=Path, default=Path("out/torch-suites"))
    parser.add_argument("--limit-s", type=float, default=900, help="of a file with one backend")
    arguments = parser.parse_args()
    from sennit.cli.bench_document import document

    rows = []
    for file in arguments.files:
        found = {
            backend: outcomes(path_of(file), backend, arguments.work, arguments.limit_s)
            for backend in BACKENDS
        }
        rows.append(row(file, found))
        print(json.dumps(rows[-1]), flush=True)
        if arguments.json is not None:
            found_here = {"program": "python bench/torch_suites.py"} | document(rows)
            arguments.json.write_text(json.dumps(found_here, indent=1) + "\n", encoding="utf-8")


def path_of(file: Path) -> Path:
    """The file; of `wheel` that of the installed PyTorch."""
    if str(file) != "wheel":
        return file.resolve()
    import torch

    folder = Path(torch.__file__).parent
    return folder / "testing/_internal/distributed/distributed_test.py"


def outcomes(file: Path, backend: str, work: Path, limit_s: float) -> dict[str, str]:
    """What came of each test of the file."""
    work.mkdir(parents=True, exist_ok=True)
    results = (work / f"{file.parent.name}-{file.stem}-{backend}.json").resolve()
    results.unlink(missing_ok=True)
    with results.with_suffix(".log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, HERE / "torch_suite_file.py", file, backend, results],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            print(f"{file} with {backend}: not done within {limit_s:g} s", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # ranks of tests that hung
        process.wait()
    if not results.exists():
        print(f"{file}: no test ran, see {results.with_suffix('.log')}", file=sys.stderr)
        return {}
    found: dict[str, str] = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
    return {name.removeprefix("suite_"): outcome for name, outcome in found.items()}


def row(file: Path, found: dict[str, dict[str, str]]) -> dict[str, Any]:
    """The counts of a file."""
    counts: dict[str, Any] = {"suite": file.stem, "folder": file.parent.name}
    counts["ranks"] = int(os.environ.get("WORLD_SIZE", "4"))
    for backend, of_tests in found.items():
        number = Counter(of_tests.values())
        counts[backend] = {what: number[what] for what in ("passed", "failed", "skipped")}
    ours = found["sennit"]
    counts["passes_with_gloo_alone"] = sorted(
        ".".join(name.split(".")[-2:])
        for name, outcome in found["gloo"].items()
        if outcome == "passed" and ours.get(name) != "passed"
    )
    counts["passes_with_sennit_alone"] = sum(
        outcome == "passed" and found["gloo"].get(name) in {"failed", "skipped"}
        for name, outcome in ours.items()
    )
    return counts


if __name__ == "__main__":
    main()
