#!/bin/sh
# Installs a wheel as an ordinary user with an empty home, uses it, and uninstalls it.
#
#   tests/install/as_user.sh WHEEL
#
# Root becomes nobody for it. What the wheel needs comes from where pip finds it. At the end only
# what pip keeps may be in that home.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/home"
cp "$1" "$work/"
wheel=$work/${1##*/}
user=
if [ "$(id -u)" = 0 ]; then
  chmod 755 "$work"
  chown 65534:65534 "$work/home"
  user='setpriv --reuid=65534 --regid=65534 --clear-groups'
fi

# Of the user's own, nothing; not even where the checkout has its tools.
as_user() {
  (cd "$work/home" && $user env -u PYTHONPATH -u VIRTUAL_ENV HOME="$work/home" \
    TMPDIR="$work/home" PATH="$work/home/env/bin:/usr/local/bin:/usr/bin:/bin" "$@")
}

# The Python that the wheel is for; that of root may lie where nobody may look.
version=$(echo "$wheel" | sed -E 's/.*-cp3([0-9]+)-(cp|abi3).*/3.\1/')
for python in "python$version" python3 "$(command -v python3)"; do
  if as_user "$python" -c "import sys; import ensurepip
sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
    break
  fi
  python=
done
if [ -z "$python" ]; then
  echo "error: no Python $version that an ordinary user can run; install python$version-venv" >&2
  exit 1
fi

case $wheel in
  *-abi3-*)
    python3 -m zipfile -l "$wheel" | grep -q '_core\.abi3\.so' || {
      echo "error: $wheel is named for several versions of Python, and its module is for one" >&2
      exit 1
    }
    ;;
esac
as_user "$python" -m venv env
as_user env/bin/pip install --quiet "$wheel"
as_user sennit --version
as_user sennit verify all_reduce --ranks 2:4 | tail -1
as_user sennit bench all_reduce --ranks 2 -e 4K -f 16
cat >"$work/program.py" <<'PROGRAM'
import numpy as np
import sennit

def main(comm: sennit.Communicator) -> float:
    return float(comm.all_reduce(np.full(4, comm.rank + 1.0))[0])

if __name__ == "__main__":
    assert sennit.spawn(main, 3) == [6.0] * 3
    print("Python:", sennit.nccl_library().name, sennit.mpi_library().name)
PROGRAM
as_user python "$work/program.py"
package=$(as_user python -c 'import sennit; print(sennit.__path__[0])')
ls "$package/share/sennit/licences"
"$here/check.sh" "$package"

as_user env/bin/pip uninstall --quiet --yes sennit
left=$(find "$work/home" -iname '*sennit*')
if [ -n "$left" ]; then
  echo "error: left behind after pip uninstall: $left" >&2
  exit 1
fi
others=$(find "$work/home" -mindepth 1 -maxdepth 1 ! -name env ! -name .cache)
[ -z "$others" ] || { echo "error: left in the home: $others" >&2 && exit 1; }
