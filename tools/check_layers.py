"""Checks the include rules that tools/layers.toml states.

Layers: an include goes to the own layer or one before it. Folders: no two include each other, in
one step or in several. Tests: what lies in a folder `testing` is for tests alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".hpp", ".cpp", ".c", ".cuh", ".cu"}


def includes(folder: Path) -> Iterator[tuple[Path, str]]:
    """Each file under a folder with each path that it includes."""
    for file in sorted(folder.rglob("*")):
        if file.suffix in SOURCES:
            for target in INCLUDE.findall(file.read_text(encoding="utf-8")):
                yield file, target


def are_siblings(own: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether two paths lie in different folders of one layer."""
    return min(len(own), len(other)) > 2 and own[0] == other[0] and own[1] != other[1]


def is_test(file: Path) -> bool:
    """Whether a file is no part of the product."""
    return "testing" in file.parts or file.stem.endswith(("_test", "_fuzz"))


def folder_links(source: Path) -> dict[Path, dict[Path, str]]:
    """Which folders include which others, with one of the includes.

    A source may include what lies in folders below its own, since a table of what is there has to;
    no header may whose folder is included by those.
    """
    links: dict[Path, dict[Path, str]] = {}
    for file, target in includes(source):
        own, other = file.parent.relative_to(source), Path(target).parent
        is_table = file.suffix == ".cpp" and own in other.parents
        if own != other and not is_table and not is_test(file) and (source / target).is_file():
            links.setdefault(own, {})[other] = f"{file.relative_to(source)} includes {target}"
    return links


def cycles(links: dict[Path, dict[Path, str]]) -> list[str]:
    """One line for each set of folders that include each other."""

    def reach(start: Path) -> set[Path]:
        seen: set[Path] = set()
        waiting = [start]
        while waiting:
            for other in links.get(waiting.pop(), {}):
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen

    reached = {folder: reach(folder) for folder in links}
    found, reported = [], set[Path]()
    for folder in sorted(links):
        ring = {other for other in reached[folder] if folder in reached.get(other, ())}
        if ring and folder not in reported:
            reported |= ring
            why = [links[a][b] for a in sorted(ring) for b in sorted(links[a]) if b in ring]
            found.append(f"folders include each other: {'; '.join(why)}")
    return found


def violations(root: Path) -> list[str]:
    """One line for each include, or circle of includes, that the rules forbid."""
    rule = tomllib.loads((root / "tools/layers.toml").read_text(encoding="utf-8"))
    level = {layer: index for index, layer in enumerate(rule["layers"])}
    found = cycles(folder_links(root / "src"))
    for file, target in includes(root / "src"):
        own, other = file.relative_to(root / "src").parts, Path(target).parts
        if len(other) < 2 or other[0] not in level:
            continue
        if own[0] not in level:
            found.append(f"{file}: folder {own[0]} is not in tools/layers.toml")
        elif level[other[0]] > level[own[0]]:
            found.append(f"{file}: {own[0]} may not include {target}, which is above it")
        elif own[0] in rule["apart"] and are_siblings(own, other):
            found.append(f"{file}: {own[0]}/{own[1]} may not include its sibling's {target}")
        elif "testing" in other and not is_test(file):
            found.append(f"{file}: {target} is for tests alone")
    for folder in rule["outside"]:
        for file, target in includes(root / folder):
            if "/" in target and Path(target).parts[0] in level:
                found.append(f"{file}: may include <sennit/...> only, not {target}")
    return found


def main() -> int:
    """Prints what is forbidden; status 1 if anything is."""
    found = violations(Path())
    print("\n".join(found) if found else "layers: no include goes up or round")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
