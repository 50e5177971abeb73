#!/usr/bin/env bash
# One version everywhere: what CMakeLists.txt says is what packages, headers and documents say.
# usage: versions.sh [BUILD_FOLDER]   (with one, what is built there is asked too)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
shopt -s nullglob
version=$(sed -n 's/^project(ckpt VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
abi=$(sed -n 's/.* SOVERSION \([0-9]*\) .*/\1/p' libckpt/CMakeLists.txt)
wrong=0
same() {
  [ "$2" = "$3" ] && return 0
  echo "$1 says '$2', but it is '$3'" >&2
  wrong=1
}
[ -n "$version" ] && [ -n "$abi" ] || { echo "no version in CMakeLists.txt, or no SOVERSION in libckpt/CMakeLists.txt" >&2; exit 1; }
same tools/install/debian/changelog "$(sed -n '1s/^ckpt (\(.*\)) .*/\1/p' tools/install/debian/changelog)" "$version"
same "libckpt/c_api.h, over ckpt_version()," \
  "$(grep -B 1 'ckpt_version(void);' libckpt/c_api.h | sed -n 's/.*"\(.*\)".*/\1/p')" "$version"
same "tests/README.md, What changed," "$(sed -n 's/^\*\*\([0-9.]*\)\*\*:.*/\1/p' tests/README.md | head -n 1)" "$version"
for recipe in tools/install/recipes/* tools/install/recipes/*/*; do
  [ -f "$recipe" ] || continue
  for said in $(sed -n 's/.*\bversion[" :=]*\([0-9]\+\.[0-9]\+\.[0-9]\+\).*/\1/ip' "$recipe"); do same "$recipe" "$said" "$version"; done
done
[ -f "tests/link/abi/libckpt_c-$abi.abi.xz" ] || { echo "no stored interface of libckpt_c.so.$abi in tests/link/abi" >&2; wrong=1; }
if [ $# -gt 0 ]; then
  same "$1/bin/ckpt --version" "$("$1/bin/ckpt" --version)" "ckpt $version"
  same "$1/lib/pkgconfig" "$(sed -n 's/^Version: //p' "$1"/tools/install/ckpt.pc)" "$version"
  [ ! -e "$1/lib/libckpt_c.so" ] ||
    same "$1/lib/libckpt_c.so" "$(readelf -d "$1/lib/libckpt_c.so" | sed -n 's/.*soname: \[libckpt_c\.so\.\(.*\)\]/\1/p')" "$abi"
fi
exit $wrong
