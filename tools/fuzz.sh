#!/usr/bin/env bash
# Runs every fuzz target of a build tree: its corpus, then mutations for some seconds each, as many
# at a time as there are cores. Replay of a crash: docs/testing_failures.md.
#   tools/fuzz.sh build/asan 60 [seed]
set -euo pipefail
build=$1 seconds=$2 seed=${3:-1}
corpus=$PWD/tests/fuzz/corpus
folder=$PWD/$build/fuzz

fuzz_one() {
  local name
  name=$(basename "$1")
  cd "$folder"
  # Longer than it may take is as wrong as a crash; a slow machine gets a minute more.
  SENNIT_DEBUG=NONE timeout $((seconds + 60)) "$1" "$corpus/$name" --seconds "$seconds" \
    --seed "$seed"
}
export -f fuzz_one
export corpus folder seconds seed
find "$folder" -name '*_fuzz' -type f -print0 | sort -z |
  xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
