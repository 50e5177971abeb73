#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment and runs the package's tests there.
# usage: wheel_test.sh FOLDER   (for the environment and the wheel; kept, so that the next run is quick)
# Ends with 77, which CTest takes for "skipped", where there is no pip or no registry of packages.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$root/tests/support/copied_sources.sh"
folder=$1
skip() {
  echo "skipped: $1"
  exit 77
}

mkdir -p "$folder"
python3 -m venv --clear "$folder/build" >/dev/null 2>&1 || skip "python3 has no venv"
"$folder/build/bin/pip" -q install scikit-build-core nanobind ninja >"$folder/pip.log" 2>&1 ||
  skip "no registry of Python packages: $(tail -n 1 "$folder/pip.log")"
rm -rf "$folder/wheel"
copy_sources "$folder/source"
# The names under which CMake finds the compilers by itself: what it compiled before is taken from ccache.
CC=cc CXX=c++ PATH=$folder/build/bin:$PATH "$folder/build/bin/pip" wheel -q --no-deps --no-build-isolation -w "$folder/wheel" \
  --config-settings=build-dir="$folder/source/build" --config-settings=cmake.define.CKPT_WERROR=ON \
  --config-settings=cmake.define.CKPT_UNITE_ALL="${CKPT_UNITE_ALL:-OFF}" \
  --config-settings=cmake.define.CMAKE_EXE_LINKER_FLAGS="${CKPT_LINKER_FLAGS:-}" "$folder/source/tools/python"
wheel=$(ls "$folder"/wheel/ckpt-*.whl)
size=$(stat -c %s "$wheel")
echo "$(basename "$wheel"): $((size / 1024)) KiB"
[ "$size" -le 6000000 ] || { echo "the wheel is larger than 6 MB" >&2; exit 1; }

python3 -m venv --clear "$folder/use"
"$folder/use/bin/pip" -q install "$wheel"
cd "$folder"  # away from the sources
# Without NumPy: what needs none.
"$folder/use/bin/python" -c '
import ckpt, sys
assert "numpy" not in sys.modules and "torch" not in sys.modules
ckpt.save({"epoch": 3}, "plain.pth")
assert ckpt.open("plain.pth").tree == {"epoch": 3}'
"$folder/use/bin/ckpt" --version
"$folder/use/bin/pip" -q install numpy ml_dtypes safetensors
CKPT_PYTHON_README=$root/tools/python/README.md "$folder/use/bin/python" "$root/tests/python/test_package.py"
