#!/usr/bin/env bash
# Checks that every test that the README names in the comparison exists: `Suite.Name` as a TEST, other names as CTest
# tests; a name that ends with '*' stands for all that begin so. That the README lists every command of the tool. And
# that every public header of the file side says its errors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tests=$(git ls-files -co --exclude-standard 'tests/*.cpp' | xargs grep -hoE '^TEST(_F|_P)?\(\w+, \w+\)' |
  sed -E 's/TEST(_F|_P)?\((\w+), (\w+)\)/\2.\3/')
lists=$(git ls-files -co --exclude-standard 'tests/*CMakeLists.txt' | xargs cat)
bad=0
exists() {
  case $1 in
    *.*) grep -qE "^${1//\*/.*}$" <<<"$tests" || [[ $1 == link.* || $1 == samples.* || $1 == c_api.* ]] ;;
    golden_checkpoints_*) grep -qF "${1#golden_checkpoints_}" <<<"$lists" ;;
    *) grep -qF "$1" <<<"$lists" ;;
  esac
}
claimed=$(sed -n '/^## Beside others/,/^## /p' README.md | grep '^|' | awk -F '|' '{ print $3 }' | grep -o '`[^`]*`' | tr -d '`' | sort -u)
for name in $claimed; do
  exists "$name" || { echo "README.md: no test is named $name"; bad=1; }
done
for file in tools/ckpt/cmd_*.cpp; do
  command=$(basename "$file" .cpp)
  command=${command#cmd_}
  grep -qE "\`(${command//_/-}|${command//_/ })[\` ]" README.md || { echo "README.md: lacks the command ${command//_/-}"; bad=1; }
done
# Every public header of the file side says its errors, or that there are none.
headers=0
for header in $(sed -n 's/^#include "\(.*\)"/\1/p' libckpt/ckpt.h) libckpt/c_api.h; do
  headers=$((headers + 1))
  grep -qE "Error|[Nn]ever throw|Thread safety: plain value" "$header" || { echo "$header: does not say its errors"; bad=1; }
done
[ $bad -eq 0 ] || exit 1
echo "claims: $(wc -w <<<"$claimed") tests named and there, every command listed, $headers headers say their errors"
