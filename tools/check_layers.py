"""Checks the include rule that tools/layers.toml states."""

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


def violations(root: Path) -> list[str]:
    """One line for each include that the rule forbids."""
    rule = tomllib.loads((root / "tools/layers.toml").read_text(encoding="utf-8"))
    level = {layer: index for index, layer in enumerate(rule["layers"])}
    found = []
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
    for folder in rule["outside"]:
        for file, target in includes(root / folder):
            if Path(target).parts[0] in level:
                found.append(f"{file}: may include <sennit/...> only, not {target}")
    return found


def main() -> int:
    """Prints what is forbidden; status 1 if anything is."""
    found = violations(Path())
    print("\n".join(found) if found else "layers: no include goes up")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
