#!/bin/sh
# Builds and runs the C program against an installed tree, through pkg-config and CMake package.
#
#   tests/install/check.sh PREFIX    a tree that cmake --install made, or the Python package folder
#
# The tree is copied first, so that a path into the original would be found out.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$1" "$work/moved"
pc=$(find "$work/moved" -name sennit.pc)
libdir=$(dirname "$(dirname "$pc")")

export PKG_CONFIG_PATH="${pc%/*}"
# shellcheck disable=SC2046  # Flags are a list of words.
"${CC:-cc}" -std=c99 -Wall -Wextra -Werror "$here/program.c" -o "$work/program" \
  $(pkg-config --cflags --libs sennit)
echo "pkg-config: $(LD_LIBRARY_PATH=$libdir "$work/program")"

cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/moved" >"$work/log" 2>&1 ||
  { cat "$work/log" && exit 1; }
cmake --build "$work/build" >"$work/log" 2>&1 || { cat "$work/log" && exit 1; }
echo "CMake package: $("$work/build/program")"
