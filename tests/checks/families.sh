#!/usr/bin/env bash
# Checks that operations live where their family is: what libcore/ops/.../x.h declares is defined in x.cpp, x_*.cpp or x.h
# itself, and no file there is called by rarity.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v ctags >/dev/null || { echo "families: install universal-ctags" >&2; exit 1; }

# NAMES KIND FILE...: the names of prototypes (p) or functions (f) in the files.
names() {
  local kind=$1
  shift
  [ $# -gt 0 ] || return 0
  ctags -f - --languages=C++ --langmap=C++:+.h --kinds-C++="$kind" --fields=ks -I 'CORE_NODE+,CORE_VIEW_NODE+' "$@" |
    awk -F '\t' -v kind="$kind" '/^!/ { next } kind == "p" && /\t(class|struct):/ { next } { print $1 }' | sort -u
}

status=0
shopt -s nullglob
while read -r header; do
  beside=("$header" "${header%.h}.cpp" "${header%.h}"_*.cpp)
  family=${header/\/detail\//\/}  # detail/x.h may be what the files of one family share
  [ "$family" = "$header" ] || beside+=("${family%.h}.cpp" "${family%.h}"_*.cpp)
  exists=()
  for file in "${beside[@]}"; do [ -f "$file" ] && exists+=("$file"); done
  missing=$(comm -23 <(names p "$header") <(names f "${exists[@]}"))
  if [ -n "$missing" ]; then
    echo "$header: declared here, defined elsewhere:" $missing
    status=1
  fi
done < <(git ls-files -co --exclude-standard 'libcore/ops/*.h' 'libcore/ops/**/*.h')
vague=$(git ls-files -co --exclude-standard 'libcore/*' 'libckpt/*' 'zoo/*' 'tools/*' 'tests/*' | grep -E '(^|[/_])(more|misc|other|common|rarer|util|utils|helpers?)([_.][^/]*)?$' |
  grep -vE '^(libckpt/hdf5|tests/golden)/|hdf5_helper' || true)
if [ -n "$vague" ]; then
  echo "names that say nothing of what is inside:"
  echo "$vague"
  status=1
fi
[ $status -eq 0 ] && echo "families: every operation is defined beside its declaration"
exit $status
