#!/usr/bin/env bash
# Fuzzes the parsers with clang's libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer, one target after the
# other. Needs clang 14; builds only what it needs into build-fuzz. Findings are left in build-fuzz/findings/TARGET;
# once fixed, they belong to tests/regress/TARGET, where every test run replays them.
# Use: tests/fuzz/run.sh [--seconds N] [TARGET...]      (600 seconds each; all targets)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=600
if [ "${1:-}" = --seconds ]; then
  seconds=$2
  shift 2
fi
build=${CKPT_FUZZ_BUILD:-build-fuzz}
logs=${CKPT_FUZZ_LOGS:-$build/logs}
golden=${CKPT_GOLDEN_DIR:-$build/golden}
mkdir -p "$golden"
for seeds in checkpoints fsdp; do
  [ -d "$golden/$seeds" ] || tar -xJf "tests/golden/$seeds.tar.xz" -C "$golden"
done
export CKPT_GOLDEN_DIR=$golden

mkdir -p "$build"
build_log=$build/build.log
sanitizers=-fsanitize=address,undefined,fuzzer-no-link
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
  -DCMAKE_BUILD_TYPE=Fuzz -DCMAKE_CXX_FLAGS="-O1 -g1 $sanitizers -fno-sanitize-recover=undefined" \
  -DCMAKE_EXE_LINKER_FLAGS="-fsanitize=address,undefined" -DCKPT_FUZZERS=ON -DCORE_WITH_CUDA=OFF > "$build_log" 2>&1 ||
  { cat "$build_log"; exit 1; }
ninja -C "$build" fuzz fuzz_replay ckpt_hdf5 >> "$build_log" 2>&1 || { tail -40 "$build_log"; exit 1; }

# 256 MiB for one allocation, 10 s an input, 1 GiB for the process: that holds the fuzzer's own corpus and what the
# sanitizer keeps of freed memory (little, so that it does not pass for a leak).
export ASAN_OPTIONS=quarantine_size_mb=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}
limits=(-rss_limit_mb=1024 -malloc_limit_mb=256 -timeout=10 -detect_leaks=0 -max_len=65536 -print_final_stats=1)
mkdir -p "$logs"
[ $# -gt 0 ] || mapfile -t targets < <("$build/bin/fuzz_replay" --list)
[ $# -eq 0 ] || targets=("$@")
failed=0
for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  findings=$build/findings/$target
  mkdir -p "$corpus" "$findings"
  "$build/bin/fuzz_replay" --seeds "$target" "$corpus"
  [ ! -d "tests/regress/$target" ] || cp tests/regress/"$target"/* "$corpus"/
  log=$logs/$target.log
  status=0
  CKPT_FUZZ_TARGET=$target "$build/bin/fuzz" "${limits[@]}" -max_total_time="$seconds" \
    -artifact_prefix="$findings/" "$corpus" > "$log" 2>&1 || status=$?
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  echo "$target: ${executed:-0} executions in $seconds s, $(find "$findings" -type f | wc -l) findings, exit $status" |
    tee -a "$logs/summary.log"
  [ "$status" -eq 0 ] || failed=1
done
exit "$failed"
