#!/usr/bin/env bash
# Runs the commands of a transcript in a scratch folder and compares what they print with what stands there. Lines that
# begin with "$ " are commands; the lines up to the next one are standard output and standard error together, then
# "[exit N]" when N is not 0. With --update the file is written anew.
# usage: transcript.sh [--update] TRANSCRIPT PATH_FOLDERS [FILE=NAME]...
set -euo pipefail
update=no
[ "${1:-}" = --update ] && { update=yes; shift; }
transcript=$(realpath "$1") folders=$2
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for pair in "$@"; do
  [ -f "${pair%=*}" ] || { echo "skipped: golden data are not unpacked (${pair%=*})"; exit 77; }
  cp "${pair%=*}" "$scratch/${pair##*=}"
done
export PATH=$folders:$PATH LC_ALL=C.UTF-8 NO_COLOR=1
cd "$scratch"
while IFS= read -r line; do
  [[ $line == '$ '* ]] || continue
  printf '%s\n' "$line"
  status=0
  bash -c "${line#\$ }" </dev/null 2>&1 || status=$?
  [ $status -eq 0 ] || echo "[exit $status]"
done <"$transcript" >"$scratch/.actual"
if [ $update = yes ]; then
  cp "$scratch/.actual" "$transcript"
else
  diff -u "$transcript" "$scratch/.actual" --label expected --label actual
fi
