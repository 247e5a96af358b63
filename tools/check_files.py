"""Checks the rules for files that tools/file_rules.toml states: size, width, names, words."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CODE = {".h", ".hpp", ".cpp", ".c", ".cuh", ".cu", ".def", ".py", ".sh", ".cmake"}
NOT_CHECKED = {"tools/file_rules.toml"}
MEGABYTE = 1_000_000


def name_faults(path: str, rule: dict[str, Any]) -> Iterator[str]:
    """Banned names, for the file and each folder above it."""
    for part in Path(path).parts:
        stem = part.partition(".")[0]
        if stem in rule["banned_names"] or stem.endswith(tuple(rule["banned_endings"])):
            yield f"{path}: {part} says nothing of what is in it; name the thing"


def text_faults(path: str, text: str, rule: dict[str, Any]) -> Iterator[str]:
    """Too many lines, too wide lines, and words that have a better one."""
    lines = text.splitlines()
    if Path(path).suffix in CODE and len(lines) > rule["lines"] and path not in rule["longer"]:
        yield f"{path}: {len(lines)} lines; cut it, or say why in tools/file_rules.toml"
    wide = not any(fnmatch(path, pattern) for pattern in rule["any_width"])
    words = re.compile(rf"\b({'|'.join(rule['words'])})\b")
    has_own_words = Path(path).suffix in CODE and path not in rule["names_of_others"]
    for number, line in enumerate(lines, start=1):
        if wide and len(line) > rule["columns"]:
            yield f"{path}:{number}: {len(line)} columns"
        # A wrong word inside quotes may be another program's name for the thing.
        match = words.search(line) if has_own_words and '"' not in line else None
        if match:
            yield f"{path}:{number}: write {rule['words'][match[1]]} instead of {match[1]}"


def page_faults(path: str, text: str, rule: dict[str, Any]) -> Iterator[str]:
    """A page with too many words: the last pattern that fits counts."""
    limits = [most for pattern, most in rule["pages"].items() if Path(path).match(pattern)]
    if not limits or path in rule["longer_pages"]:
        return
    words = len(re.sub(r"<!-- ([^/].*?) -->.*?<!-- /\1 -->", "", text, flags=re.DOTALL).split())
    if words > limits[-1]:
        yield f"{path}: {words} words, at most {limits[-1]}"


def count_words(text: str, words: Iterable[str]) -> Counter[str]:
    """How many lines have each word, in any case."""
    lines = [set(re.findall(r"[a-z]+", line.lower())) for line in text.splitlines()]
    return Counter({word: sum(word in line for line in lines) for word in words})


def count_faults(counts: Counter[str], rule: dict[str, Any]) -> Iterator[str]:
    """Words that were to become fewer, and are more."""
    for word, most in rule["fewer"].items():
        if counts[word] > most:
            yield f"{counts[word]} lines of code say '{word}', at most {most}: docs/glossary.md"


def folder_faults(sizes: dict[str, int], rule: dict[str, Any]) -> Iterator[str]:
    """Folders that weigh too much, and files of a kind that does not belong into them."""
    for folder, limits in rule["folders"].items():
        inside = {path: size for path, size in sizes.items() if path.startswith(f"{folder}/")}
        weight = sum(inside.values()) / MEGABYTE
        if weight > limits["megabytes"]:
            most = limits["megabytes"]
            yield f"{folder}: {weight:.2f} MB, at most {most}; {limits['instead']}"
        for path in inside:
            if path.endswith(tuple(limits["refused"])):
                yield f"{path}: this kind of file does not belong here; {limits['instead']}"


def faults(root: Path) -> list[str]:
    """One line for each broken rule in the files that git knows or would add."""
    rule = tomllib.loads((root / "tools/file_rules.toml").read_text(encoding="utf-8"))
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: list[str] = []
    sizes: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for path in listing.splitlines():
        file = root / path
        if not file.is_file() or path in NOT_CHECKED:
            continue
        sizes[path] = file.stat().st_size
        found += name_faults(path, rule)
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += text_faults(path, text, rule)
        found += page_faults(path, text, rule)
        if file.suffix in CODE:
            counts += count_words(text, rule["fewer"])
    return [*found, *count_faults(counts, rule), *folder_faults(sizes, rule)]


def main() -> int:
    """Prints what breaks a rule; status 1 if anything does."""
    found = faults(Path())
    print("\n".join(found) if found else "files: size, width, names, words and weight are in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
