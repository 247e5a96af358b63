"""Remembers which states of the sources passed a check, so that CI need not repeat it.

    python tools/known_good.py check NAME PATH...     status 0 if these files passed as they are
    python tools/known_good.py record NAME PATH...    they did

A state is a hash of what the files hold: it is the same in every checkout and on every branch. The
states that passed lie outside of the checkout, in $CCACHE_DIR/sennit-ci or ~/.cache/sennit-ci, or
with --in in a folder of it, to be committed. Where that folder is not kept, everything is checked.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

KEPT_STATES = 8
"""Of each subject: branches that CI goes between do not forget each other's."""


def default_folder() -> Path:
    """Where what passed is remembered."""
    return Path(os.environ.get("CCACHE_DIR") or Path.home() / ".cache") / "sennit-ci"


class KnownGood:
    """States that passed one kind of check, by subject; `save` makes them last."""

    def __init__(self, kind: str, folder: Path | None = None) -> None:
        """Reads what was saved; a file that cannot be read holds nothing."""
        self._file = (folder or default_folder()) / f"{kind}.json"
        try:
            self._states: dict[str, list[str]] = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self._states = {}

    def holds(self, subject: str, state: str) -> bool:
        """Whether the subject passed in this state."""
        return state in self._states.get(subject, [])

    def has_seen(self, subject: str) -> bool:
        """Whether the subject passed in any state, or was to be remembered by `see`."""
        return subject in self._states

    def see(self, subject: str) -> None:
        """There is the subject, whether or not it passes."""
        self._states.setdefault(subject, [])

    def add(self, subject: str, state: str) -> None:
        """The subject passes in this state."""
        others = [known for known in self._states.get(subject, []) if known != state]
        self._states[subject] = [*others, state][-KEPT_STATES:]

    def save(self) -> None:
        """Writes the file as a whole: another run reads the old one or the new one."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(self._states), encoding="utf-8")
        part.replace(self._file)


def state_of(root: Path, files: Iterable[str], *others: str) -> str:
    """A hash of the files' names and contents, and of what else decides the result."""
    digest = hashlib.sha256()
    for part in others:
        digest.update(f"{len(part)}:{part}".encode())
    for file in sorted(set(files)):
        content = (root / file).read_bytes()
        digest.update(f"{file}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def git_lines(root: Path, *arguments: str) -> list[str]:
    """What git prints; nothing where it fails, as without a repository."""
    command = ["git", "-C", str(root), *arguments]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    return answer.stdout.splitlines() if answer.returncode == 0 else []


def sources(root: Path, *paths: str) -> list[str]:
    """The files below these paths that git knows or would add."""
    listing = git_lines(
        root, "ls-files", "--cached", "--others", "--exclude-standard", "--", *paths
    )
    return [file for file in listing if (root / file).is_file()]


def main() -> int:
    """The command line of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=["check", "record"])
    parser.add_argument("name")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--also", default="", help="what else decides: a compiler's version, say")
    parser.add_argument("--in", dest="folder", type=Path, help="where the states are kept")
    arguments = parser.parse_args()
    known = KnownGood(arguments.name, arguments.folder)
    files = sources(Path(), *arguments.paths)
    if not files:
        print(f"no files: {' '.join(arguments.paths)}", file=sys.stderr)
        return 1
    state = state_of(Path(), files, arguments.also)
    if arguments.action == "check":
        return 0 if known.holds(arguments.name, state) else 1
    known.add(arguments.name, state)
    known.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
