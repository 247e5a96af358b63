"""docs/tour.md: every command of it runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/tour.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)( gpu)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What has happened before a test can run: it is checked that the page has no other such command.
BEFORE = ("git clone REPOSITORY", "make build", ". .venv/bin/activate")
FILES = {"ring.svg": "<svg", "dgx.svg": "<svg", "bench.json": "{", "bench.png": "\x89PNG"}


def steps() -> list[tuple[str, str]]:
    """Commands in their order, and what the page shows of the output of the last ones."""
    found: list[tuple[str, str]] = []
    for language, on_gpu, text in BLOCK.findall(PAGE):
        if language == "text":
            found[-1] = (found[-1][0], text)
        elif not on_gpu:
            commands = text.splitlines()
            found += [(line, "") for line in commands if not line.startswith(BEFORE)]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Like the root of a clone, with `sennit` and `python` as the page's environment has them."""
    place = tmp_path_factory.mktemp("tour")
    (place / "examples").symlink_to(ROOT / "examples")
    (place / "bin").mkdir()
    (place / "bin/python").symlink_to(sys.executable)
    command = place / "bin/sennit"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sennit "$@"\n')
    command.chmod(0o755)
    return place


@pytest.mark.parametrize(("command", "shown"), steps())
def test_a_command_of_the_tour_runs(folder: Path, command: str, shown: str) -> None:
    # `sennit run` has something to put in front in every build with this.
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "SENNIT_DEVICE": "host"}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in shown.splitlines():
        assert line in done.stdout.splitlines()
    for name in re.findall(r"\S+\.(?:svg|json|png)", command):
        content = (folder / name).read_bytes().decode("latin-1")
        assert content.startswith(FILES[name]), name


def test_the_page_has_its_commands() -> None:
    commands = [command for command, _ in steps()]
    assert len(commands) == 10
    assert sum(bool(shown) for _, shown in steps()) == 3
