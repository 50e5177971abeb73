#!/usr/bin/env bash
# Checks that every test that the comparison in libckpt/README.md names exists: `Suite.Name` as a TEST, other names as
# CTest tests; a name that ends with '*' stands for all that begin so. That the READMEs list every command of the tool
# and link to files that are there. And that every public header of the file side says its errors.
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
claimed=$(sed -n '/^## Beside others/,/^## /p' libckpt/README.md | grep '^|' | awk -F '|' '{ print $3 }' | grep -o '`[^`]*`' | tr -d '`' | sort -u)
for name in $claimed; do
  exists "$name" || { echo "libckpt/README.md: no test is named $name"; bad=1; }
done
for command in $(sed -nE 's/^COMMAND\([a-z]+, ([a-z_]+)\)$/\1/p' tools/ckpt/commands/command_list.inc); do
  for page in README.md tools/README.md; do
    grep -qE "\`(${command//_/-}|${command//_/ })[\` ]" $page || { echo "$page: lacks the command ${command//_/-}"; bad=1; }
  done
done
# Links to files of the repository, without what stands behind '#'.
links=0
for page in $(git ls-files -co --exclude-standard '*.md'); do
  for link in $(sed '/^```/,/^```/d' "$page" | grep -oE '\]\([^)#]+' | cut -c3- | grep -v '^https\?:'); do
    links=$((links + 1))
    [ -e "$(dirname "$page")/$link" ] || { echo "$page: nothing is at $link"; bad=1; }
  done
done
# Every public header of the file side says its errors, or that there are none.
headers=0
for header in $(sed -n 's/^#include "\(.*\)"/\1/p' libckpt/ckpt.h) libckpt/c_api.h; do
  headers=$((headers + 1))
  grep -qE "Error|[Nn]ever throw|Thread safety: plain value" "$header" || { echo "$header: does not say its errors"; bad=1; }
done
[ $bad -eq 0 ] || exit 1
echo "claims: $(wc -w <<<"$claimed") tests named and there, every command listed, $links links lead somewhere, $headers headers say their errors"
