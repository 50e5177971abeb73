#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. Closes with one line: N passed, N failed, N skipped.
# usage: bash tests/run.sh [--asan] [--quick] [--filter REGEX]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"

usage() {
  echo "usage: bash tests/run.sh [--asan] [--quick] [--filter REGEX]"
  echo "  --asan          address and undefined-behaviour sanitizers, in a build folder of their own"
  echo "  --quick         leave out the tests labelled slow"
  echo "  --filter REGEX  only tests whose name matches"
}

asan=no
select=()
while [ $# -gt 0 ]; do
  case $1 in
    --asan) asan=yes ;;
    --quick) select+=(-LE slow) ;;
    --filter)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      select+=(-R "$2")
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

install_packages "${build_packages[@]}" "${demo_packages[@]}" "${test_packages[@]}"

folder=$root/build
options=(-DCKPT_BUILD_TESTS=ON)
[ "${CI:-}" = true ] && options+=(-DCKPT_WERROR=ON)
if [ $asan = yes ]; then
  folder=$root/build-asan
  options+=(-DCKPT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
fi
configure "$folder" "${options[@]}"
build "$folder" all

# Golden data travel compressed; unpack what is new.
mkdir -p "$folder/golden"
for archive in "$root"/tests/golden/*.tar.xz; do
  stamp=$folder/golden/.$(basename "$archive")
  if [ ! "$stamp" -nt "$archive" ]; then
    tar -xJf "$archive" -C "$folder/golden"
    touch "$stamp"
  fi
done

results=$folder/results.xml
status=0
ctest --test-dir "$folder" -j "$(nproc)" --output-on-failure --no-tests=error --output-junit "$results" "${select[@]}" \
  >"$folder/ctest.log" 2>&1 || status=$?
if [ $status -ne 0 ]; then
  cat "$folder/ctest.log"
elif [ -t 1 ]; then
  grep -E '^golden |tests passed' "$folder/ctest.log" || true
fi
count() { grep -m1 '<testsuite' -A 12 "$results" | tr '\n' ' ' | sed -n "s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p"; }
total=$(count tests) failed=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
echo "$((total - failed - skipped)) passed, $failed failed, $skipped skipped"
exit $status
