"""clang-tidy runs over what it has not found clean, and over a part of what it never saw."""

import json
import subprocess
from pathlib import Path

import tidy
from known_good import KnownGood


def write(root: Path, file: str, text: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text, encoding="utf-8")


def tree(root: Path, *units: str) -> list[tidy.Unit]:
    """A tree whose units include `src/x/x.hpp`, which includes `src/base/deep.hpp`."""
    subprocess.run(["git", "init", "--quiet", str(root)], check=True)
    write(root, ".clang-tidy", "Checks: '*'\n")
    write(root, "src/base/deep.hpp", "int deep();\n")
    write(root, "src/x/x.hpp", '#include "base/deep.hpp"\n')
    for unit in units:
        write(root, unit, '#include "x.hpp"\n#include <vector>\n')
    entries = [{"file": str(root / unit), "command": f"c++ {root}/{unit}"} for unit in units]
    write(root, "build/compile_commands.json", json.dumps(entries))
    return units_of(root)


def units_of(root: Path, version: str = "1") -> list[tidy.Unit]:
    tidy.direct_includes.cache_clear()
    return tidy.units_of(root, root / "build", version)


def test_a_unit_has_all_that_it_includes(tmp_path: Path) -> None:
    (unit,) = tree(tmp_path, "src/x/a.cpp")
    assert unit.files == {"src/x/a.cpp", "src/x/x.hpp", "src/base/deep.hpp"}


def test_another_header_rule_or_version_is_another_state(tmp_path: Path) -> None:
    (unit,) = tree(tmp_path, "src/x/a.cpp")
    states = {unit.state, units_of(tmp_path, "2")[0].state}
    for file in ("src/base/deep.hpp", ".clang-tidy", "src/x/a.cpp"):
        write(tmp_path, file, "// other\n" + (tmp_path / file).read_text(encoding="utf-8"))
        states.add(units_of(tmp_path)[0].state)
    assert len(states) == 5


def test_a_state_does_not_depend_on_the_checkout(tmp_path: Path) -> None:
    (one,) = tree(tmp_path / "one", "src/x/a.cpp")
    (other,) = tree(tmp_path / "other", "src/x/a.cpp")
    assert one.state == other.state


def test_what_is_checked_and_how() -> None:
    assert tidy.options_for("src/x/a.cpp") == ()
    assert tidy.options_for("bench/rank/a.cpp") == ()
    assert tidy.options_for("src/x/a_test.cpp") == (tidy.NO_ANALYZER,)
    assert tidy.options_for("tests/a_test.cpp") == (tidy.NO_ANALYZER,)
    assert tidy.options_for("src/base/fmt.cpp") is None
    assert tidy.options_for("tests/oracle.cpp") is None


def test_what_was_clean_and_changed_comes_whole(tmp_path: Path) -> None:
    units = tree(tmp_path, *(f"src/x/{i}.cpp" for i in range(6)))
    known = KnownGood("tidy", tmp_path / "known")
    for unit in units:
        known.add(unit.source, unit.state)
    assert tidy.chosen(units, known, {}, "head") == []
    write(tmp_path, "src/base/deep.hpp", "int other();\n")
    assert len(tidy.chosen(units_of(tmp_path), known, {}, "head")) == 6


def test_what_was_never_clean_comes_in_parts_and_newest_first(tmp_path: Path) -> None:
    units = tree(tmp_path, *(f"src/x/{i}.cpp" for i in range(6)))
    known = KnownGood("tidy", tmp_path / "known")
    ages = {"src/x/3.cpp": 1, "src/x/5.cpp": 2, "src/x/1.cpp": 9}
    sources = []
    for _ in range(tidy.PART):
        now = tidy.chosen(units, known, ages, "head")
        sources += [unit.source for unit in now]
        for unit in now:
            known.add(unit.source, unit.state)
    assert sources[:3] == ["src/x/3.cpp", "src/x/5.cpp", "src/x/1.cpp"]
    assert sorted(sources) == [unit.source for unit in units]
    assert tidy.chosen(units, known, ages, "head") == []
