"""What passed is known by its content, in any checkout; anything else is checked again."""

import subprocess
import sys
from pathlib import Path

import pytest
from known_good import KEPT_STATES, KnownGood, sources, state_of

TOOL = Path(__file__).parents[2] / "tools/known_good.py"


def test_a_state_is_known_once_it_was_saved(tmp_path: Path) -> None:
    known = KnownGood("kind", tmp_path)
    known.add("a.cpp", "1")
    assert not KnownGood("kind", tmp_path).holds("a.cpp", "1")
    known.save()
    again = KnownGood("kind", tmp_path)
    assert again.holds("a.cpp", "1")
    assert not again.holds("a.cpp", "2")
    assert again.has_seen("a.cpp")
    assert not again.has_seen("b.cpp")
    assert not KnownGood("other", tmp_path).holds("a.cpp", "1")


def test_the_last_states_are_kept(tmp_path: Path) -> None:
    known = KnownGood("kind", tmp_path)
    for state in range(KEPT_STATES + 1):
        known.add("a.cpp", str(state))
    assert not known.holds("a.cpp", "0")
    assert known.holds("a.cpp", "1")


def test_a_file_that_is_broken_knows_nothing(tmp_path: Path) -> None:
    (tmp_path / "kind.json").write_text("{", encoding="utf-8")
    assert not KnownGood("kind", tmp_path).has_seen("a.cpp")


def test_a_state_is_names_and_contents(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for root in (one, other):
        root.mkdir()
        (root / "a").write_text("1", encoding="utf-8")
        (root / "b").write_text("2", encoding="utf-8")
    assert state_of(one, ["a", "b"]) == state_of(other, ["b", "a", "a"])
    assert state_of(one, ["a"]) != state_of(one, ["a", "b"])
    assert state_of(one, ["a"], "options") != state_of(one, ["a"])
    (other / "b").write_text("3", encoding="utf-8")
    assert state_of(one, ["a", "b"]) != state_of(other, ["a", "b"])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src/a.cpp").write_text("int a;\n", encoding="utf-8")
    (root / ".gitignore").write_text("/out/\n", encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    return root


def test_sources_are_what_git_knows_or_would_add(repository: Path) -> None:
    (repository / "out").mkdir()
    (repository / "out/b.cpp").write_text("", encoding="utf-8")
    assert sources(repository, "src", "out") == ["src/a.cpp"]


def test_a_check_passes_until_a_file_changes(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path))

    def status(action: str, *words: str) -> int:
        command = [sys.executable, str(TOOL), action, "threads", *words]
        return subprocess.run(command, check=False, cwd=repository, capture_output=True).returncode

    assert status("check", "src") == 1
    assert status("record", "src") == 0
    assert status("check", "src") == 0
    assert status("check", "src", "--in", "kept") == 1
    assert status("record", "src", "--in", "kept") == 0
    assert (repository / "kept/threads.json").exists()
    assert status("check", "src", "--in", "kept") == 0
    (repository / "src/a.cpp").write_text("int b;\n", encoding="utf-8")
    assert status("check", "src") == 1
    assert status("record", "nothing") == 1
