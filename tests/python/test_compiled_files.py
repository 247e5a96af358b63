"""What is compiled at first use: what was not used for long goes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from sennit import compiled_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled_files.folder().mkdir()
    return compiled_files.folder()


def put(file: Path, age_s: float) -> Path:
    """A file that was last used so long ago."""
    file.touch()
    os.utime(file, (0, time.time() - age_s))
    return file


def names(folder: Path) -> set[str]:
    """What is in the folder."""
    return {file.name for file in folder.iterdir()}


def test_those_used_last_stay(folder: Path) -> None:
    old = [put(folder / f"torch-{age}.so", age * 86400) for age in range(1, 8)]
    put(folder / "gloo-9.so", 9 * 86400)
    assert compiled_files.is_here(old[-1])
    compiled_files.finish(put(folder / "torch-0.unfinished", 0), folder / "torch-0.so")
    assert names(folder) == {"torch-0.so", "torch-7.so", "torch-1.so", "torch-2.so", "gloo-9.so"}


def test_what_others_still_compile_stays_and_what_was_left_behind_goes(folder: Path) -> None:
    for name, age_s in (("1.lock", 5), ("2.unfinished", 5), ("3.lock", 9999), ("4.4711", 9999)):
        put(folder / f"torch-{name}", age_s)
    compiled_files.finish(put(folder / "torch-0.unfinished", 0), folder / "torch-0.so")
    assert names(folder) == {"torch-0.so", "torch-1.lock", "torch-2.unfinished"}


def test_a_file_that_is_not_there_is_not_used(folder: Path) -> None:
    assert not compiled_files.is_here(folder / "torch-0.so")


def test_files_of_a_folder_that_is_only_read_are_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = put(folder / "torch-0.so", 0)

    def refuse(_: Path) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert compiled_files.is_here(library)
    assert not compiled_files.is_here(folder / "torch-1.so")
