#!/usr/bin/env bash
# The interface of libckpt_c.so as it was promised (abi/libckpt_c-N.abi.xz): the functions, and the types in their
# signatures. usage: abi_test.sh LIBRARY [--record]
# LIBRARY is built with debug information, which says what the types are. --record stores what it has now.
# Ends with 77, which CTest takes for "skipped", where libabigail is not installed.
set -euo pipefail
library=$1
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
soname=$(readelf -d "$library" | sed -n 's/.*Library soname: \[\(.*\)\]/\1/p')
stored=$repository/tests/link/abi/libckpt_c-${soname##*.}.abi.xz
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: abigail-tools is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
mkdir "$scratch/public"
cp "$repository/libckpt/c_api.h" "$scratch/public"
abidw --headers-dir "$scratch/public" --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path --no-show-locs \
  --out-file "$scratch/now.abi" "$library"
if [ "${2:-}" = --record ]; then
  xz -9e <"$scratch/now.abi" >"$stored"
  exit
fi
[ -f "$stored" ] || { echo "no interface is stored for $soname; abi_test.sh LIBRARY --record stores it" >&2; exit 1; }
xz -dc "$stored" >"$scratch/promised.abi"
status=0
abidiff "$scratch/promised.abi" "$scratch/now.abi" >"$scratch/differences" || status=$?
[ $status -ne 0 ] || exit 0
cat "$scratch/differences" >&2
if [ $((status & 8)) -ne 0 ]; then
  echo "programs that were linked with $soname would break: keep what was there, or raise SOVERSION in libckpt/CMakeLists.txt" >&2
elif [ $((status & 4)) -ne 0 ]; then
  echo "the interface has changed; where something was only added, raise CKPT_ABI_VERSION in c_api.h and store it" \
    "(tests/link/abi_test.sh $library --record), else keep what was there or raise SOVERSION" >&2
fi
exit 1
