"""One version: CMake's, which Python's package takes, and the C header's."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_header_and_cmake_state_the_same_version() -> None:
    project = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    header = (ROOT / "include/sennit/sennit.h").read_text(encoding="utf-8")
    version = re.search(r"project\(sennit VERSION ([0-9.]+)", project)
    assert version is not None
    parts = [
        re.search(rf"#define SENNIT_VERSION_{part} (\d+)", header)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    assert version[1] == ".".join(part[1] for part in parts if part is not None)
