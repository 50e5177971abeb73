#!/usr/bin/env bash
# Builds for 64-bit ARM (tools/setup.sh --cross aarch64) and runs what it built under QEMU: the golden printing, random numbers
# and operations, and the cases of the tool, which programs of this machine's build folder drive.
# usage: aarch64_test.sh BUILD_FOLDER [GTEST_FILTER]   (the folder of this machine, with tests and unpacked golden data)
# What is built is optimised less and by folder (-O1, a united build), as the results are what is looked at and not their speed.
# On two cores beside other builds it took half an hour to build, and the tool's main cases 4 minutes in two halves side by
# side: no test runs this by itself.
set -euo pipefail
native=$(realpath "$1")
# QEMU 7.2 knows neither Landlock nor seccomp, so the helper is not confined and HDF5 files of others are not read; git
# starts the program itself, which only a kernel that knows of QEMU can. Why Ctrl-C ends it without its line is not known.
hdf5=CliHdf5.*:Native.GoesThroughEveryCommand:InPlace.OfRescueAndReindexAsksToo:Set.NamesMetaWhereAFormatHasTextAlone
hdf5+=:Io.EveryWayGivesTheSameFile:*/PackedCheckpoint.OfEveryFormIsOpened/0:*/PackedCheckpoint.OfEveryFormIsOpened/1
hdf5+=:Appended.BytesBehindAnHdf5File:Forms/Damage.*/inh5:Forms/Damage.*/inkeras
filter=${2:--$hdf5:Repository.DiffSpeaksOfTensors:Terminal.IsToldThatCtrlCLeavesNoUnfinishedFile}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bash "$root/tools/setup.sh" --cross aarch64
build=$root/build-aarch64/build
sysroot=$root/build-aarch64/sysroot
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/tools/install/aarch64.cmake" -DCKPT_SLOW_TESTS=OFF \
  -DCMAKE_BUILD_TYPE=Quick -DCMAKE_CXX_FLAGS_QUICK="-O1 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON >/dev/null
sets=(printing rng ops)
cmake --build "$build" --target ckpt_cli ckpt_hdf5 "${sets[@]/#/golden_runtime_}"

# Programs of this machine start others by their path: each is a line that starts it under QEMU.
programs=$root/build-aarch64/programs
mkdir -p "$programs"
for name in ckpt ckpt-hdf5; do
  printf '#!/bin/sh\nCKPT_HDF5_HELPER=${CKPT_HDF5_HELPER-%q} exec qemu-aarch64-static -L %q %q "$@"\n' \
    "$programs/ckpt-hdf5" "$sysroot" "$build/bin/$name" >"$programs/$name"
  chmod +x "$programs/$name"
done
failed=0
for set in "${sets[@]}"; do
  CKPT_GOLDEN_DIR=$native/golden OMP_NUM_THREADS=1 qemu-aarch64-static -L "$sysroot" "$build/bin/golden_runtime_$set" |
    tail -n 25 || failed=1
done
for program in cli cli_help_examples cli_damage cli_sets cli_torch cli_warnings; do
  [ -x "$native/bin/test_$program" ] || { echo "not built: test_$program"; continue; }
  CKPT_BIN_DIR=$programs "$native/bin/test_$program" --gtest_brief=1 --gtest_filter="$filter" || failed=1
done
exit $failed
