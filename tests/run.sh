#!/usr/bin/env bash
# Installs what is missing, builds, runs every test. Closes with one line: N passed, N failed, N skipped.
# usage: bash tests/run.sh [--asan | --tsan] [--quick] [--filter REGEX] [--only NAME]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tools/setup.sh"

usage() {
  echo "usage: bash tests/run.sh [--asan | --tsan] [--quick] [--filter REGEX] [--only NAME]"
  echo "  --asan          address and undefined-behaviour sanitizers, in a build folder of their own"
  echo "  --tsan          thread sanitizer, on what runs several threads: devices, DataParallel, data loading, process groups"
  echo "  --quick         leave out the tests labelled slow, and do not build what only they run"
  echo "  --filter REGEX  only tests whose name matches"
  echo "  --only NAME     build and run one test program: transform, golden_torch_zip, ... (build/bin/[test_]NAME)"
}

asan=no tsan=no slow=ON
only= targets=(all)
select=() filter=
while [ $# -gt 0 ]; do
  case $1 in
    --asan) asan=yes ;;
    --tsan) tsan=yes ;;
    --quick) slow=OFF; select+=(-LE slow -E '_NOT_BUILT$') ;;
    --filter | --only)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      if [ "$1" = --filter ]; then filter=$2; else only=$2; fi
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done

# The target of `--only NAME`.
program_of() {
  local all
  all=$(ninja -C "$folder" -t targets all)
  for target in "test_$1" "$1"; do
    if grep -q "^$target: phony" <<<"$all"; then
      echo "$target"
      return
    fi
  done
  echo "run.sh: no test program is called $1; there are:" >&2
  sed -nE 's/^(test_)?([a-z0-9_]+): phony.*/\1\2/p' <<<"$all" | grep -E '^(test|golden)_' | grep -vE '^test_(pch|support)$' | sort -u | tr '\n' ' ' | fold -s -w 120 >&2
  echo >&2
  return 2
}

# The numbers that CTest gives the tests of a program, as its option -I takes them.
tests_of() {
  ctest --test-dir "$folder" -N -V | awk -v program="/bin/$1" '
    / Test command: / { sub(/^.*Test command: /, ""); split($0, words, " "); is_it = words[1] ~ program "$" }
    / Test +#[0-9]+: / { if (is_it) { sub(/^.*#/, ""); sub(/:.*/, ""); numbers = numbers "," $0 } }
    END { print "0,0,1" numbers }'
}

[ "${CI:-}" = true ] && test_packages+=(universal-ctags)  # for CKPT_UNITE_ALL
install_packages "${build_packages[@]}" "${demo_packages[@]}" "${test_packages[@]}"

folder=$root/build
options=(-DCKPT_BUILD_TESTS=ON -DCKPT_SLOW_TESTS=$slow)
command -v mold >/dev/null && options+=(-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold)  # a tenth of the time of ld
lines=-g1  # so that a sanitizer names them
if [ "${CI:-}" = true ]; then
  # Everything is compiled once there: several sources as one take half of the time.
  options+=(-DCKPT_WERROR=ON -DCMAKE_UNITY_BUILD=ON -DCKPT_UNITE_ALL=ON)
  lines=-g0  # a tenth of the time to compile; functions are named all the same
fi
# With sanitizers every program that holds the libraries itself takes 100 to 250 MB: shared ones save nine tenths of the disk.
if [ $asan = yes ] || [ $tsan = yes ]; then
  options+=(-DBUILD_SHARED_LIBS=ON)
  command -v mold >/dev/null && options+=(-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=mold)
fi
if [ $asan = yes ]; then
  folder=$root/build-asan
  options+=(-DCMAKE_UNITY_BUILD=ON -DCKPT_SANITIZE=address,undefined -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 $lines")
fi
if [ $tsan = yes ]; then
  folder=$root/build-tsan
  options+=(-DCMAKE_UNITY_BUILD=ON -DCKPT_SANITIZE=thread -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 $lines")
  targets=(test_parallel test_backend test_data test_autograd test_dist_store test_dist_near test_dist_group test_dist_nccl golden_comm_hooks)
  # The sanitizer cannot see how OpenMP's threads wait for each other, as the library is not built with it: a kernel that
  # is split over a team would be reported although it is right. So every kernel stays on the thread that starts it
  # (which is how replicas run on a machine with as many devices as cores), and the tests of such teams are left out.
  export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 suppressions=$root/tests/support/thread_sanitizer.txt"
  [ -n "$only" ] || filter=${filter:-'^(parallel|backend|data|dist_store|dist_near|dist_group|dist_nccl|autograd\.SeveralDevices)\.|^golden_comm_hooks(_nccl)?$'}
  # Nor can it see how the threads of Open MPI wait for each other; and each of many ranks takes its memory.
  select+=(-E '^backend\.(ParallelFor\.|.*OnSeveralThreads)|^dist_group\.(Mpi\.|.*/mpi|.*ManyRanks)')
fi
# As many tests as cores run at once: a team that waits by spinning takes the core that another one needs.
export OMP_WAIT_POLICY=passive
[ -n "$filter" ] && select+=(-R "$filter")
# What tools/demo.sh may have left out on a machine without a GPU.
grep -qs '^CORE_WITH_CUDA:[A-Z]*=GPU$' "$folder/CMakeCache.txt" && options+=(-DCORE_WITH_CUDA=AUTO)
configure "$folder" "${options[@]}"
if [ -n "$only" ]; then
  targets=("$(program_of "$only")")
fi
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

[ -n "$only" ] && select+=(-I "$(tests_of "${targets[0]}")")
results=$folder/results.xml
status=0
# One more than there are cores: tests of ranks, crashes and time-outs wait for much of their time.
ctest --test-dir "$folder" -j "$(($(nproc) + 1))" --output-on-failure --no-tests=error --output-junit "$results" "${select[@]}" \
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
