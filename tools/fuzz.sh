#!/usr/bin/env bash
# Runs every fuzz target of a build tree: its corpus, then mutations for some seconds each, as many
# at a time as there are cores. Replay of a crash: docs/adding/testing_failures.md.
#   tools/fuzz.sh build/asan 60 [seed]
# SENNIT_FUZZ_AGAIN_SECONDS=5 is for targets that passed before with their layer, base/ and the
# driver as they are (tools/known_good.py): the same seed tries the same inputs.
set -euo pipefail
build=$1 seconds=$2 seed=${3:-1}
again=${SENNIT_FUZZ_AGAIN_SECONDS:-$seconds}
root=$PWD
corpus=$PWD/tests/fuzz/corpus
folder=$PWD/$build/fuzz

fuzz_one() {
  local name time=$seconds tests
  name=$(basename "$1")
  tests=("$(dirname "$(git ls-files ":(glob)src/**/$name.cpp")")" src/base tests/fuzz/driver.cpp
    "tests/fuzz/corpus/$name")
  python3 "$root/tools/known_good.py" check "$name" "${tests[@]}" && time=$again
  # Longer than it may take is as wrong as a crash; a slow machine gets a minute more.
  (
    cd "$folder"
    SENNIT_DEBUG=NONE timeout $((time + 60)) "$1" "$corpus/$name" --seconds "$time" --seed "$seed"
  ) || return
  python3 "$root/tools/known_good.py" record "$name" "${tests[@]}"
}
export -f fuzz_one
export corpus folder seconds again seed root
find "$folder" -name '*_fuzz' -type f -perm -u+x -print0 | sort -z |
  xargs -0 -P "$(nproc)" -I{} bash -c 'fuzz_one {}'
