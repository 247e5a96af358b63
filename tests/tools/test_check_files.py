"""The file rules find what they are there for."""

import subprocess
from pathlib import Path
from typing import Any

import check_files
import pytest

RULE: dict[str, Any] = {
    "columns": 20,
    "lines": 3,
    "any_width": ["*.def"],
    "banned_names": ["utils"],
    "banned_endings": ["_v2"],
    "names_of_others": ["src/mpi.cpp"],
    "longer": {"src/long.cpp": "a table"},
    "words": {"bcast": "broadcast"},
    "fewer": {"told": 2},
    "pages": {"docs/*.md": 3, "docs/decisions/*.md": 2},
    "longer_pages": {"docs/long.md": "a list"},
    "folders": {
        "bench/results": {"megabytes": 2, "refused": [".png"], "instead": "draw it elsewhere"}
    },
}


@pytest.mark.parametrize("path", ["src/utils/a.cpp", "src/utils.cpp", "src/ring_v2.cpp"])
def test_empty_name_is_found(path: str) -> None:
    assert len(list(check_files.name_faults(path, RULE))) == 1


def test_telling_name_passes() -> None:
    assert list(check_files.name_faults("src/utility_model/ring.cpp", RULE)) == []


@pytest.mark.parametrize(
    ("path", "text", "part"),
    [
        ("src/a.cpp", "\n" * 4, "4 lines"),
        ("src/a.cpp", "x" * 21, "21 columns"),
        ("src/a.cpp", "int bcast();", "broadcast"),
    ],
)
def test_fault_in_the_text_is_found(path: str, text: str, part: str) -> None:
    (fault,) = check_files.text_faults(path, text, RULE)
    assert part in fault


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/long.cpp", "\n" * 4),
        ("notes.md", "\n" * 4),
        ("src/a.def", "x" * 21),
        ("src/a.cpp", 'name("bcast");'),
        ("src/a.cpp", "MPI_Bcast(x);"),
        ("src/mpi.cpp", "int bcast();"),
    ],
)
def test_what_is_allowed_passes(path: str, text: str) -> None:
    assert list(check_files.text_faults(path, text, RULE)) == []


def test_a_folder_that_weighs_too_much_is_found() -> None:
    sizes = {"bench/results/a.json": 1_500_000, "bench/results/current/b.json": 510_000}
    (fault,) = check_files.folder_faults(sizes, RULE)
    assert fault == "bench/results: 2.01 MB, at most 2; draw it elsewhere"


def test_a_picture_among_results_is_found() -> None:
    (fault,) = check_files.folder_faults({"bench/results/current/a.png": 10}, RULE)
    assert fault.startswith("bench/results/current/a.png: ")


def test_other_folders_may_weigh_more_and_have_pictures() -> None:
    sizes = {"bench/results/a.json": 2_000_000, "bench/results_of_all.png": 3_000_000}
    assert list(check_files.folder_faults(sizes, RULE)) == []


def test_the_weight_is_that_of_files_which_git_knows_or_would_add(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    rules = (Path(check_files.__file__).parent / "file_rules.toml").read_text(encoding="utf-8")
    (tmp_path / "tools/file_rules.toml").write_text(rules, encoding="utf-8")
    results = tmp_path / "bench/results"
    results.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.json\n", encoding="utf-8")
    (results / "ignored.json").write_text("x" * 2_500_000, encoding="utf-8")
    assert check_files.faults(tmp_path) == []
    (results / "run.json").write_text("x" * 2_500_000, encoding="utf-8")
    (results / "run.png").write_bytes(b"\x89PNG")
    found = check_files.faults(tmp_path)
    assert [fault.partition(": ")[0] for fault in found] == [
        "bench/results",
        "bench/results/run.png",
    ]


@pytest.mark.parametrize(("lines", "faults"), [(2, 0), (3, 1)])
def test_words_that_become_more_are_found(lines: int, faults: int) -> None:
    counts = check_files.count_words("// Told, told.\n// untold\n" * lines, RULE["fewer"])
    assert len(list(check_files.count_faults(counts, RULE))) == faults


@pytest.mark.parametrize(
    ("path", "text", "faults"),
    [
        ("docs/a.md", "one two three", 0),
        ("docs/a.md", "one two three four", 1),
        ("docs/a.md", "one two three\n<!-- made here -->\nfour\n<!-- /made here -->\n", 0),
        ("docs/a.md", "one two three\n<!-- made -->\nfour", 1),
        ("docs/decisions/a.md", "one two three", 1),
        ("docs/lab/a.md", "one two three four", 0),
        ("docs/long.md", "one two three four", 0),
        ("README.md", "one two three four", 0),
    ],
)
def test_a_page_with_too_many_words_is_found(path: str, text: str, faults: int) -> None:
    assert len(list(check_files.page_faults(path, text, RULE))) == faults
