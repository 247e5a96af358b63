"""The command `sennit`, also as `python -m sennit`."""

from __future__ import annotations

import importlib.util
import sys

EXIT_MISSING = 4


def main() -> int:
    """Run the command line; its needs come with the extra `cli`."""
    missing = [name for name in ("click", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"sennit: the command line needs {' and '.join(missing)}, which this Python lacks.\n"
            "Next: pip install 'sennit[cli]'\n"
        )
        return EXIT_MISSING
    from sennit.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
