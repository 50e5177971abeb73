#!/usr/bin/env bash
# Installs into a scratch folder and builds consumers against it: one with plain g++ and pkg-config that links libckpt
# alone, one with find_package that trains. usage: install_test.sh BUILD_FOLDER WRAPPED.pth
set -euo pipefail
build=$1 input=$2
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

[ -f "$input" ] || { echo "skipped: golden data are not unpacked"; exit 77; }
cmake --install "$build" --prefix "$scratch/usr" >"$scratch/install.log"
export PKG_CONFIG_PATH=$(dirname "$(find "$scratch/usr" -name ckpt.pc)")

echo "plain g++ with libckpt alone"
# shellcheck disable=SC2046
g++ -std=c++20 "$here/consumer.cpp" -o "$scratch/consumer" $(pkg-config --cflags --libs ckpt)
mkdir "$scratch/out"
timeout 60 "$scratch/consumer" "$input" "$scratch/out"
if nm -C "$scratch/consumer" | grep -iE ' (cu[A-Z][a-z]+|cuda|cublas|dnnl|cblas_|openblas)' ||
  ldd "$scratch/consumer" | grep -iE 'cuda|cublas|dnnl|blas|gomp'; then
  echo "the consumer carries a compute library" >&2
  exit 1
fi

echo "the installed program"
"$scratch/usr/bin/ckpt" ls "$scratch/out/plain.ckpt" >/dev/null
if ldd "$scratch/usr/bin/ckpt" | grep -iE 'cuda|cublas|dnnl|blas|gomp'; then
  echo "ckpt carries a compute library" >&2
  exit 1
fi

echo "find_package and the runtime"
cmake -S "$here/package" -B "$scratch/package" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/usr" >"$scratch/package.log" ||
  { cat "$scratch/package.log"; exit 1; }
cmake --build "$scratch/package" >"$scratch/package.log" || { cat "$scratch/package.log"; exit 1; }
"$scratch/package/trainer" "$scratch/out/net.ckpt"
