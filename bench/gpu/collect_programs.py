"""Puts what programs for NCCL did over this library into one result file.

python3 bench/gpu/collect_programs.py --out FILE PART.json...
"""

from __future__ import annotations

import argparse
import json
import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from collect import answer, machine, result_files

PACKAGES = ("torch", "torchvision", "cupy-cuda13x", "jax", "nvidia-nccl-cu13")


def version_of(package: str) -> str | None:
    """The version that is installed here, if one is."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main() -> None:
    """Collects and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("parts", type=Path, nargs="*")
    arguments = parser.parse_args()
    document = {
        "schema": 1,
        "program": "bench/gpu/nccl_programs",
        "machine": machine(),
        "version": "0.1.0",
        "versions": {"python": platform.python_version()}
        | {package: version_of(package) for package in PACKAGES},
        "mpi": answer("mpirun", "--version").splitlines()[:1],
        "commit": answer("git", "rev-parse", "HEAD") or None,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "parts": {
            part.stem: json.loads(part.read_text(encoding="utf-8"))
            for part in arguments.parts
            if part.exists()
        },
    }
    result_files.write(arguments.out, document)


if __name__ == "__main__":
    main()
