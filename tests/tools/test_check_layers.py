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
        ("src/select/a.cpp", "algo/testing/one_tile.hpp"),
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
        ("frontends/nccl/a.cpp", "memory"),
        ("src/select/a_test.cpp", "algo/testing/one_tile.hpp"),
    ],
)
def test_allowed_include_passes(tmp_path: Path, file: str, include: str) -> None:
    assert check_layers.violations(tree(tmp_path, file, include)) == []


@pytest.mark.parametrize("suffix", ["hpp", "cpp"])
def test_folders_that_include_each_other_are_found(tmp_path: Path, suffix: str) -> None:
    tree(tmp_path, "src/comm/device/line.hpp", "comm/world.hpp")
    (tmp_path / "src/comm/world.hpp").touch()
    (tmp_path / f"src/comm/world.{suffix}").write_text('#include "comm/device/line.hpp"\n')
    found = check_layers.violations(tmp_path)
    # A source above them all may list what is there; a header may not.
    assert len(found) == (suffix == "hpp")
    assert all("comm/device/line.hpp" in fault for fault in found)


def test_this_repository_keeps_the_rule() -> None:
    assert check_layers.violations(ROOT) == []
