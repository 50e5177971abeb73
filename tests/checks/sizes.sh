#!/usr/bin/env bash
# Prints the longest functions and files and fails past the stop: functions 60 lines, sources 600, headers 300.
# Tables and kernels may pass with a stated reason: tests/checks/sizes_allowed.txt, lines of "path[:function] reason".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
allowed=tests/checks/sizes_allowed.txt
max_function=60 max_source=600 max_header=300
command -v ctags >/dev/null || { echo "sizes: install universal-ctags" >&2; exit 1; }

files=$(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu')
functions=$(ctags -f - --languages=C++ --langmap=C++:+.cu.h --kinds-C++=f --fields=+ne $files |
  awk -F '\t' '{ line = 0; end = 0
    for (i = 4; i <= NF; i++) { if ($i ~ /^line:/) line = substr($i, 6); if ($i ~ /^end:/) end = substr($i, 5) }
    if (end > 0) printf "%d %s:%s\n", end - line + 1, $2, $1 }' | sort -rn)
echo "longest functions:"
head -n 5 <<<"$functions"
lengths=$(wc -l $files | grep -v ' total$' | awk '{ print $1, $2 }' | sort -rn)
echo "longest files:"
head -n 5 <<<"$lengths"

{
  awk -v max=$max_function '$1 > max { print $2, $1 " lines, a function has at most " max }' <<<"$functions"
  awk -v source=$max_source -v header=$max_header '
    { max = $2 ~ /\.h$/ ? header : source }
    $1 > max { print $2, $1 " lines, such a file has at most " max }' <<<"$lengths"
} | { grep -v -F -f <(awk 'NF > 1 { print $1 " " }' "$allowed") || true; } >"${TMPDIR:-/tmp}/sizes.$$"
trap 'rm -f "${TMPDIR:-/tmp}/sizes.$$"' EXIT
if [ -s "${TMPDIR:-/tmp}/sizes.$$" ]; then
  cat "${TMPDIR:-/tmp}/sizes.$$"
  exit 1
fi
echo "sizes: all within the limits"
