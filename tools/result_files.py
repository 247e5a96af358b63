"""Result files: where they lie, and the form in which they are committed.

    python tools/result_files.py FILE.json NAME [--program COMMAND]

Takes what a benchmark wrote and writes bench/results/current/NAME.json, in place of the run that
had this name before. The committed form has seven digits a number and a row a line, without fields
that follow from others and without logs. bench/host.py, bench/gpu/collect.py and
bench/gpu/collect_programs.py write this form at once.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "bench/results/current"
REQUIRED = ("program", "machine", "version", "commit", "date")
"""What every committed file says of its run."""
DIGITS = 7
COLUMNS = 1200
"""A value that takes no more is one line, as nearly every row is."""
DERIVED = ("algbw_GBps", "busbw_GBps", "floor_hops_us", "floor_bytes_us")
"""Of a row: what follows from its collective, ranks, bytes and time (gpu_rows.floors_us)."""
LOGS = ("printed", "text")
"""What programs printed, and the table that `sennit tune` wrote."""


def read(name: str) -> dict[str, Any]:
    """The committed run of this name."""
    document: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def names() -> list[str]:
    """The names of all committed runs."""
    return sorted(file.stem for file in RESULTS.glob("*.json"))


def slim(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what tables, pictures and tests read, and what distinguishes runs."""
    kept = {key: value for key, value in document.items() if key not in LOGS}
    if "choices" in kept:  # of `sennit tune --check`, which has judged its times
        kept.pop("rows", None)
    if "rows" in kept:
        kept["rows"] = [slim_row(row) for row in kept["rows"]]
    rounded: dict[str, Any] = round_numbers(kept)
    return rounded


def slim_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what follows from the rest, and of the other engines their medians alone."""
    kept = {key: value for key, value in row.items() if key not in DERIVED}
    if kept.get("registered") is False:
        del kept["registered"]  # what readers take for granted
    if "engines" in kept:
        kept["engines"] = {name: {"p50": times["p50"]} for name, times in row["engines"].items()}
    return kept


def round_numbers(value: Any) -> Any:
    """The value with DIGITS significant digits in each of its fractions."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        return [round_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: round_numbers(item) for key, item in value.items()}
    return value


def text(document: dict[str, Any]) -> str:
    """JSON with a line for each row, and for each other value that fits into COLUMNS."""
    return broken(document, "", fits=0)


def broken(value: Any, indent: str, fits: int) -> str:
    """JSON of a value, in lines where it takes more than `fits` columns."""
    line = json.dumps(value, separators=(",", ":"))
    if len(line) <= fits or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {part(item, inner)}" for key, item in value.items()]
        opening, closing = "{}"
    else:
        parts = [part(item, inner) for item in value]
        opening, closing = "[]"
    joined = f",\n{inner}".join(parts)
    return f"{opening}\n{inner}{joined}\n{indent}{closing}"


def part(value: Any, indent: str) -> str:
    """JSON of a part of a document; rows, however few, have a line each."""
    are_rows = indent == " " and isinstance(value, list) and any(isinstance(i, dict) for i in value)
    return broken(value, indent, fits=0 if are_rows else COLUMNS)


def write(file: Path, document: dict[str, Any]) -> None:
    """Writes the document in the form of committed results."""
    file.write_text(text(slim(document)) + "\n", encoding="utf-8")


def main() -> None:
    """Takes one file in."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("name", help="machine and program, such as h200x4-nop2p")
    parser.add_argument("--program", help="the command that measured it, if the file names none")
    arguments = parser.parse_args()
    document = json.loads(arguments.file.read_text(encoding="utf-8"))
    if arguments.program:
        document = {"schema": document["schema"], "program": arguments.program} | document
        document["program"] = arguments.program
    if missing := [key for key in REQUIRED if not document.get(key)]:
        parser.error(f"{arguments.file} does not say its {', '.join(missing)}")
    write(RESULTS / f"{arguments.name}.json", document)


if __name__ == "__main__":
    main()
