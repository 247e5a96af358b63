"""Prints the rows of sennit-compare as a table: times in us, and the faster NCCL's over ours."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Reads the file of JSON lines that the first argument names."""
    print(f"{'collective':15}{'bytes':>11} {'mode':7}{'ours':>9}{'nccl':>9}{'windows':>9}{'ratio':>7}")
    for line in Path(sys.argv[1]).read_text().splitlines():
        row = json.loads(line)
        ours, nccl, windows = (
            row["time_us"][name]["p50"] for name in ("sennit", "nccl", "nccl windows")
        )
        wrong = f"  {row['wrong']} WRONG" if row["wrong"] else ""
        print(
            f"{row['collective']:15}{row['bytes']:>11} {row['mode']:7}"
            f"{ours:>9.1f}{nccl:>9.1f}{windows:>9.1f}{row['ratio']:>7.2f}{wrong}"
        )


if __name__ == "__main__":
    main()
