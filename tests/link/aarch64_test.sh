#!/usr/bin/env bash
# Builds for 64-bit ARM (tools/setup.sh --cross aarch64) and runs what it built under QEMU, in steps:
#   goldens   printing, random numbers and operations beside PyTorch's results
#   tool      the cases of the tool, which the test programs of this machine's build folder drive
#   programs  ckpt-run, train, the C library and every library that is installed are compiled and linked, and started
# usage: aarch64_test.sh BUILD_FOLDER [STEP...]   (the folder of this machine, with tests and unpacked golden data)
# What is built is optimised less and by folder (-O1, a united build), as the results are what is looked at and not their
# speed. It stays in build-aarch64: a run that was stopped goes on where it was. CKPT_JOBS is how many compile at once.
# No test runs this by itself: it takes an hour on two cores.
set -euo pipefail
native=$(realpath "$1")
shift
steps=("${@:-goldens tool programs}")
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-aarch64/build
sysroot=$root/build-aarch64/sysroot
programs=$root/build-aarch64/programs
failed=0
say() { echo "== $* ($SECONDS s)"; }

# QEMU 7.2 knows neither Landlock nor seccomp, without which a helper reads no HDF5 file of others: these cases are run once
# more with the helper of this machine.
hdf5=CliHdf5.*:Native.GoesThroughEveryCommand:InPlace.OfRescueAndReindexAsksToo:Set.NamesMetaWhereAFormatHasTextAlone
hdf5+=:Io.EveryWayGivesTheSameFile:*/PackedCheckpoint.OfEveryFormIsOpened/0:*/PackedCheckpoint.OfEveryFormIsOpened/1
hdf5+=:Appended.BytesBehindAnHdf5File:Forms/Damage.*/inh5:Forms/Damage.*/inkeras:HelpExamples.OfEveryCommandRun
# Cases that QEMU cannot run, each with its reason.
skipped=(
  "Repository.DiffSpeaksOfTensors|git starts the program itself, which only a kernel that knows of QEMU can"
  "Terminal.IsToldThatCtrlCLeavesNoUnfinishedFile|it sends Ctrl-C as soon as the process catches it, and QEMU does so before the program does"
)

build_targets() {
  cmake --build "$build" ${CKPT_JOBS:+-j "$CKPT_JOBS"} --target "$@" >"$build/build.log" 2>&1 || {
    grep -E -A 12 'error|FAILED' "$build/build.log" | head -60 >&2
    return 1
  }
}

# Programs of this machine start others by their path: each is a line that starts it under QEMU.
write_starters() {
  local name
  mkdir -p "$programs"
  for name in "$@"; do
    printf '#!/bin/sh\nCKPT_HDF5_HELPER=${CKPT_HDF5_HELPER-%q} CKPT_RUN=%q exec qemu-aarch64-static -L %q %q "$@"\n' \
      "$programs/ckpt-hdf5" "$programs/ckpt-run" "$sysroot" "$build/bin/$name" >"$programs/$name"
    chmod +x "$programs/$name"
  done
}

step_goldens() {
  local set sets=(printing rng ops)
  build_targets "${sets[@]/#/golden_runtime_}"
  for set in "${sets[@]}"; do
    CKPT_GOLDEN_DIR=$native/golden OMP_NUM_THREADS=1 qemu-aarch64-static -L "$sysroot" "$build/bin/golden_runtime_$set" |
      tail -n 25 || failed=1
  done
}

# tool_cases FILTER PROGRAM...
tool_cases() {
  local filter=$1 program
  shift
  for program in "$@"; do
    if [ ! -x "$native/bin/test_$program" ]; then
      echo "not built in $native: test_$program" >&2
      failed=1
      continue
    fi
    CKPT_BIN_DIR=$programs CKPT_GOLDEN_DIR=$native/golden "$native/bin/test_$program" --gtest_brief=1 --gtest_filter="$filter" ||
      failed=1
  done
}

step_tool() {
  build_targets ckpt_cli ckpt_hdf5
  write_starters ckpt ckpt-hdf5
  local row names=
  for row in "${skipped[@]}"; do
    echo "skipped: ${row%%|*}: ${row#*|}"
    names+=:${row%%|*}
  done
  tool_cases "-$hdf5$names" cli cli_damage cli_sets cli_torch cli_warnings
  echo "HDF5 files, with the helper of this machine:"
  CKPT_HDF5_HELPER=$native/bin/ckpt-hdf5 tool_cases "$hdf5" cli cli_help_examples cli_damage
}

step_programs() {
  build_targets ckpt_run train ckpt_c core ckpt ckpt_bridge ckpt_remote zoo dist dist_bridge tensorboard onnx
  write_starters ckpt-run train
  "$programs/ckpt-run" devices
  "$programs/train" --help | head -n 3
}

bash "$root/tools/setup.sh" --cross aarch64
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/tools/install/aarch64.cmake" -DCKPT_SLOW_TESTS=OFF \
  -DCMAKE_BUILD_TYPE=Quick -DCMAKE_CXX_FLAGS_QUICK="-O1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON >/dev/null
for step in ${steps[*]}; do
  case $step in
    goldens | tool | programs) say "$step" && "step_$step" ;;
    *) echo "aarch64_test.sh: there is no step '$step'; steps are goldens, tool, programs" >&2 && exit 2 ;;
  esac
done
say "done"
exit $failed
