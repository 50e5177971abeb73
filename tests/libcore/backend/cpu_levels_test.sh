#!/usr/bin/env bash
# The golden random numbers, operations and printing on processors that this one is not, under QEMU: with AVX2 and FMA all
# of them; without, all but what libcore/README.md ("Instruction sets") says.
# usage: cpu_levels_test.sh BUILD_FOLDER
# Ends with 77, which CTest takes for "skipped", where QEMU (Debian's qemu-user-static) or the golden data are not.
set -euo pipefail
bin=$1/bin
for emulator in qemu-x86_64-static qemu-x86_64 ""; do
  [ -n "$emulator" ] || { echo "skipped: qemu-user-static is not installed"; exit 77; }
  ! command -v "$emulator" >/dev/null || break
done
[ -d "$1/golden/runtime" ] || { echo "skipped: golden data are not unpacked"; exit 77; }
export CKPT_BIN_DIR=$bin OMP_NUM_THREADS=1
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
failed=0
run() { "$emulator" -cpu "$1" "$bin/golden_runtime_$2" >"$scratch/log" 2>&1 || return 1; }

for set in rng ops printing; do
  run Haswell $set || { echo "with AVX2 and FMA, $set:" >&2; tail -n 5 "$scratch/log" >&2; failed=1; }
done

# Without FMA the C library's log, sin and cos are other ones. OpenBLAS takes QEMU's processor for a newer one by itself.
export OPENBLAS_CORETYPE=Nehalem
differ='FAIL rng/[^:]*/(exponential_f64|mix_2|randn_(f64_[0-9]+|f32_15|f16_15|bf16_15)):'
for set in "rng 33" "ops 0" "printing 0"; do
  most=${set#* } set=${set% *}
  run Nehalem "$set" || true
  count=$(sed -n 's/^golden [a-z]*: [0-9]* passed, \([0-9]*\) failed.*/\1/p' "$scratch/log")
  [ -n "$count" ] || { echo "without FMA, $set does not come to its end:" >&2; tail -n 3 "$scratch/log" >&2; failed=1; continue; }
  others=$(grep '^FAIL' "$scratch/log" | grep -Ev "^$differ" || true)
  if [ "$count" -gt "$most" ] || [ -n "$others" ]; then
    echo "without FMA $count cases of $set differ where $most may:" "$others" >&2
    failed=1
  fi
done
exit $failed
