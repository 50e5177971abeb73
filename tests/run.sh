#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. Closes with one line: N passed, N failed, N skipped.
# usage: bash tests/run.sh [--asan | --tsan] [--quick] [--filter REGEX]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"

usage() {
  echo "usage: bash tests/run.sh [--asan | --tsan] [--quick] [--filter REGEX]"
  echo "  --asan          address and undefined-behaviour sanitizers, in a build folder of their own"
  echo "  --tsan          thread sanitizer, on what runs several threads: devices, DataParallel, data loading"
  echo "  --quick         leave out the tests labelled slow"
  echo "  --filter REGEX  only tests whose name matches"
}

asan=no tsan=no
targets=(all)
select=() filter=
while [ $# -gt 0 ]; do
  case $1 in
    --asan) asan=yes ;;
    --tsan) tsan=yes ;;
    --quick) select+=(-LE slow) ;;
    --filter)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      filter=$2
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
command -v mold >/dev/null && options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold)  # a tenth of the time of ld
[ "${CI:-}" = true ] && options+=(-DCKPT_WERROR=ON)
if [ $asan = yes ]; then
  folder=$root/build-asan
  options+=(-DCKPT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
fi
if [ $tsan = yes ]; then
  folder=$root/build-tsan
  options+=(-DCKPT_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1")
  targets=(test_parallel test_backend test_data test_autograd)
  # The sanitizer cannot see how OpenMP's threads wait for each other, as the library is not built with it: a kernel that
  # is split over a team would be reported although it is right. So every kernel stays on the thread that starts it
  # (which is how replicas run on a machine with as many devices as cores), and the tests of such teams are left out.
  export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$root/tests/support/thread_sanitizer.txt"
  filter=${filter:-'^(parallel|backend|data|autograd\.SeveralDevices)\.'}
  select+=(-E '^backend\.(ParallelFor\.|.*OnSeveralThreads)')
fi
[ -n "$filter" ] && select+=(-R "$filter")
configure "$folder" "${options[@]}"
build "$folder" "${targets[@]}"

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
