"""The layer check finds what it is there for, and the repository is clean."""

from pathlib import Path

import check_layers
import pytest

ROOT = Path(__file__).parents[2]


def tree(root: Path, file: str, include: str) -> Path:
    (root / "tools").mkdir()
    (root / "tools/layers.toml").write_text(
        (ROOT / "tools/layers.toml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(f'#include "{include}"\n', encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/base/a.cpp", "types/types.hpp"),
        ("src/path/shm/a.hpp", "path/cma/cma.hpp"),
        ("src/drivers/ucx/a.cpp", "drivers/nvml/nvml.hpp"),
        ("src/unheard/a.cpp", "base/status.hpp"),
        ("frontends/nccl/a.cpp", "base/status.hpp"),
    ],
)
def test_forbidden_include_is_found(tmp_path: Path, file: str, include: str) -> None:
    (fault,) = check_layers.violations(tree(tmp_path, file, include))
    assert file in fault


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("src/types/a.cpp", "base/status.hpp"),
        ("src/base/a.cpp", "base/status.hpp"),
        ("src/exec/exec.cpp", "exec/cpu/engine.hpp"),
        ("src/algo/all_reduce/ring.cpp", "algo/reduce_scatter/ring.hpp"),
        ("src/base/a.cpp", "sys/mman.h"),
        ("frontends/nccl/a.cpp", "sennit/sennit.h"),
    ],
)
def test_allowed_include_passes(tmp_path: Path, file: str, include: str) -> None:
    assert check_layers.violations(tree(tmp_path, file, include)) == []


def test_this_repository_keeps_the_rule() -> None:
    assert check_layers.violations(ROOT) == []
