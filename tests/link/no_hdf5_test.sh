#!/usr/bin/env bash
# libhdf5 lives in the helper program and nowhere else: neither `ckpt` nor what links libckpt carries it or loads it.
# usage: no_hdf5_test.sh BUILD_FOLDER
set -euo pipefail

for file in "$1/bin/ckpt" "$1/lib/libckpt.a" "$1/lib/libckpt_c.so"; do
  [ -f "$file" ] || continue
  if nm "$file" 2>/dev/null | grep -E ' [TUtu] H5[A-Z]+[a-z_]'; then
    echo "$file carries or needs libhdf5" >&2
    exit 1
  fi
  case $file in *.a) continue ;; esac
  if ldd "$file" | grep -iE 'hdf5|libsz|libaec'; then
    echo "$file loads libhdf5" >&2
    exit 1
  fi
done
nm "$1/bin/ckpt-hdf5" | grep ' [tT] H5Fopen$' >/dev/null || { echo "the helper has no libhdf5" >&2; exit 1; }
