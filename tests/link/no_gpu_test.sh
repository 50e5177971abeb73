#!/usr/bin/env bash
# Programs start where there is no GPU, no driver and no CUDA library: none is loaded before it is needed, and `ckpt` and
# what links libckpt alone have nothing of CUDA in them. usage: no_gpu_test.sh BUILD_FOLDER
set -euo pipefail
bin=$1/bin

for program in "$bin/ckpt" "$bin/ckpt-run"; do
  if ldd "$program" | grep -iE 'libcu|cudnn|nccl|nvidia'; then
    echo "$program needs a CUDA library to start" >&2
    exit 1
  fi
done
if nm -C "$bin/ckpt" "$1/lib/libckpt.a" 2>/dev/null | grep -E ' (cuda|cublas|__cuda)[A-Z][A-Za-z]*'; then
  echo "ckpt carries the CUDA runtime" >&2
  exit 1
fi

listing=$(CUDA_VISIBLE_DEVICES= CORE_LOGICAL_DEVICES= "$bin/ckpt" devices)
grep -q 'No devices were found' <<<"$listing" || { echo "$listing" >&2; exit 1; }
