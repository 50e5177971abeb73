#!/usr/bin/env bash
# Packs what a GPU machine without compiler and network needs into one folder: programs, stripped, with the libraries of
# this system that they load, golden data and the scripts of this folder. Needs no GPU.
# usage: tests/gpu/pack.sh BUILD OUT    (BUILD: a build folder with CUDA, CORE_WITH_CUDA, and CKPT_BUILD_TESTS)
set -euo pipefail
[ $# -eq 2 ] || { sed -n 2,4p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
build=$(realpath "$1") out=$2
programs=(test_gpu test_gpu_io test_graphed_step golden_runtime_ops golden_runtime_autograd golden_runtime_modules
  golden_runtime_optim golden_runtime_training golden_runtime_chunk golden_sequences golden_distributions golden_zoo_models golden_dist test_dist_nccl
  runtime_bench ckpt_bench gpu_bench gpu_random_probe)
cmake --build "$build" --target "${programs[@]}" ckpt_cli ckpt_hdf5 >/dev/null

room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
mkdir -p "$room/bin" "$room/lib" "$room/etc" "$out"
for program in "${programs[@]}" ckpt ckpt-hdf5; do strip -o "$room/bin/$program" "$build/bin/$program"; done
# Not the C library nor the C++ library: the other system's are as new or newer, and CUDA's libraries load those.
for program in "$room"/bin/*; do ldd "$program"; done | awk '/=> \//{print $3}' | sort -u |
  grep -Ev '/(libc|libm|libmvec|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so' | xargs -I{} cp -L {} "$room/lib/"
cp "$source"/tests/golden/*.tar.xz "$source/tests/bench/speed_table.py" "$here"/*_peer.py "$room/etc/"
# Most of the programs is the same code: a large dictionary finds it.
tar -C "$room" -c bin lib etc | xz --lzma2=preset=3,dict=512MiB,mf=hc4,nice=64 -T1 >"$out/gpu_kit.tar.xz"
cp "$here/phases.sh" "$out/"
git -C "$source" rev-parse HEAD >"$out/commit" 2>/dev/null || true
ls -la "$out"
