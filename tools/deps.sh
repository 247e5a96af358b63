#!/bin/sh
# Sets up what the build needs from the system: compiler, Python, C++ header packages.
#
#   tools/deps.sh [NAME...]      also installs these packages, where there is no command of the name
#   tools/deps.sh --compiler     prints the C++ compiler that the build shall use
#   tools/deps.sh --carried      unpacks what a source package brings along, here or not
#
# Does nothing, and needs no network, when all is there. Missing system packages are installed where
# that needs no password; header packages are unpacked into .deps/, which needs no rights at all.
# ccache and mold make builds faster and are not needed: they are installed where that is possible,
# and not asked for where it is not.
set -eu
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
OLDEST_GCC=12

gcc_is_new_enough() {
  command -v "$1" >/dev/null 2>&1 || return 1
  version=$("$1" -dumpversion | cut -d. -f1)
  # Clang answers with its own version; CMake judges it.
  "$1" --version | grep -qi clang || [ "$version" -ge "$OLDEST_GCC" ]
}

find_compiler() {
  for candidate in ${CXX:-} g++ g++-12 g++-13 g++-14 g++-15; do
    if gcc_is_new_enough "$candidate"; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

# Ubuntu 22.04's g++ is version 11, and its g++-12 is a package next to it.
compiler_package() {
  candidate=$(apt-cache policy g++ 2>/dev/null | sed -n 's/.*Candidate: [0-9]*:*\([0-9]*\).*/\1/p')
  if [ "${candidate:-$OLDEST_GCC}" -ge "$OLDEST_GCC" ]; then
    echo g++
  else
    echo "g++-$OLDEST_GCC"
  fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif sudo -n true 2>/dev/null; then
    sudo "$@"
  else
    return 1
  fi
}

may_be_root() { as_root true; }

missing_packages() {
  find_compiler >/dev/null || compiler_package
  if ! command -v "$PYTHON" >/dev/null 2>&1; then
    echo python3 python3-venv python3-dev
  else
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    "$PYTHON" - <<'CHECK' || echo python3-dev
import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
CHECK
  fi
  for name in "$@"; do
    command -v "$name" >/dev/null 2>&1 || dpkg -s "$name" >/dev/null 2>&1 || echo "$name"
  done
}

install_packages() {
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "error: missing on this system (names of Debian's packages): $*" >&2
    exit 1
  fi
  if ! may_be_root; then
    echo "error: system packages are missing. Run this line, then the same command again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y $*" >&2
    exit 1
  fi
  echo "installing $*"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

install_faster_tools() {
  faster=
  for name in ccache mold; do
    command -v "$name" >/dev/null 2>&1 || faster="$faster $name"
  done
  if [ -n "$faster" ] && command -v apt-get >/dev/null 2>&1 && may_be_root; then
    # shellcheck disable=SC2086  # A list of words.
    (install_packages $faster) 2>/dev/null || echo "without$faster: cannot be installed here"
  fi
}

has_header() {
  echo "#include <$1>" | "$compiler" -x c++ -E -isystem .deps/usr/include - >/dev/null 2>&1
}

has_gtest_library() {
  echo 'int main() {}' | "$compiler" -x c++ - -o /dev/null -lgtest \
    -L.deps/usr/lib/x86_64-linux-gnu -L.deps/usr/lib/aarch64-linux-gnu 2>/dev/null
}

missing_headers() {
  has_header fmt/format.h || echo libfmt-dev
  has_header nlohmann/json_fwd.hpp || echo nlohmann-json3-dev
  { has_header gtest/gtest.h && has_gtest_library; } || echo libgtest-dev libgmock-dev
}

download() { (cd "$download_dir" && apt-get -o APT::Sandbox::User=root download -qq "$@"); }

unpack_headers() {
  echo "unpacking $* into .deps/"
  download_dir=$(mktemp -d)
  trap 'rm -rf "$download_dir"' EXIT
  if ! download "$@" 2>/dev/null; then
    # A fresh system has no package lists yet.
    as_root apt-get update -qq || true
    if ! download "$@"; then
      echo "error: could not download the header packages. Run this line, then try again:" >&2
      echo "  sudo apt-get update && sudo apt-get install -y $*" >&2
      exit 1
    fi
  fi
  for package in "$download_dir"/*.deb; do
    dpkg-deb -x "$package" .deps
  done
  # Of their pages only the licences, which go wherever the headers go.
  find .deps/usr/share/doc ! -type d ! -name copyright -delete
}

# Headers that the library is compiled with; pyproject.toml lists their files.
carried_packages() {
  for package in libfmt-dev nlohmann-json3-dev libucx-dev; do
    [ -e ".deps/usr/share/doc/$package/copyright" ] || echo "$package"
  done
}

if [ "${1:-}" = --compiler ]; then
  find_compiler
  exit
fi

if [ "${1:-}" = --carried ]; then
  headers=$(carried_packages | tr '\n' ' ')
  # shellcheck disable=SC2086  # A list of words.
  [ -z "$headers" ] || unpack_headers $headers
  exit
fi

packages=$(missing_packages "$@" | tr '\n' ' ')
# shellcheck disable=SC2086  # A list of words.
[ -z "$packages" ] || install_packages $packages
install_faster_tools
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  echo "error: Python 3.10 or newer is needed; name one with PYTHON=..." >&2
  exit 1
fi

if ! compiler=$(find_compiler); then
  echo "error: a C++20 compiler is needed (g++ $OLDEST_GCC or newer); name one with CXX=..." >&2
  exit 1
fi
headers=$(missing_headers | tr '\n' ' ')
# shellcheck disable=SC2086  # A list of words.
[ -z "$headers" ] || unpack_headers $headers
# Without them the library builds, and has no rails.
has_header ucp/api/ucp.h || (unpack_headers libucx-dev) 2>/dev/null ||
  echo "without libucx-dev: cannot be downloaded here"
