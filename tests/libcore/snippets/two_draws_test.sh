#!/bin/bash
# The query finds the marked lines of two_draws.cpp and no others. Usage: two_draws_test.sh CLANG_QUERY PROJECT
set -eu
here="$2/tests/libcore/snippets"
wanted=$(grep -n '// found$' "$here/two_draws.cpp" | cut -d: -f1 | sort -n | xargs)
said=$("$1" -f "$here/two_draws.query" "$here/two_draws.cpp" -- -std=c++20 -I"$2" 2>&1)
found=$(sed -n 's/.*two_draws.cpp:\([0-9]*\):.*two draws in one expression.*/\1/p' <<<"$said" | sort -n | xargs)
[ "$found" = "$wanted" ] || { echo "found lines $found, wanted $wanted"; echo "$said" | head -40; exit 1; }
