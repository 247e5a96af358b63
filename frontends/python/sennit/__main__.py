"""The command `sennit`, also as `python -m sennit`."""

from __future__ import annotations

import importlib.util
import io
import os
import sys

EXIT_MISSING = 4


def main() -> int:
    """Run the command line; `pip install --no-deps` leaves its needs out."""
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"sennit: the command line needs {' and '.join(missing)}, which this Python lacks.\n"
            "Next: pip install click rich\n"
        )
        return EXIT_MISSING
    from sennit.cli import run

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for names of files that are no text
    code = run(sys.argv[1:])
    from sennit.cli.tools import is_running

    if is_running():
        # The library still computes what nobody waits for, and would be torn down below it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
