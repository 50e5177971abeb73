#!/usr/bin/env bash
# Checks that every source is formatted as .clang-format says. With --fix, formats them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v clang-format >/dev/null || { echo "format: install clang-format" >&2; exit 1; }
mapfile -t files < <(git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu')
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run -Werror "${files[@]}"
  echo "format: ${#files[@]} files as they should be"
fi
