"""The file rules find what they are there for."""

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
