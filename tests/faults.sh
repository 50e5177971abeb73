#!/usr/bin/env bash
# Takes every way of saving through faults (tests/faults/) and prints the table: what was done, what went wrong with the
# machine, how many points were tried, how many ended badly. Fails when one did, or a planted bug was not found.
# usage: bash tests/faults.sh [--quick | --long] [--build FOLDER]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
length=quick

usage() {
  echo "usage: bash tests/faults.sh [--quick | --long] [--build FOLDER]"
  echo "  --quick         some operations and a sample of the points (the default)"
  echo "  --long          all of them, also on ext4, xfs and btrfs where root can make such disks"
  echo "  --build FOLDER  the build folder (default: build)"
}

while [ $# -gt 0 ]; do
  case $1 in
    --quick | --long) length=${1#--} ;;
    --build)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      build=$2
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
build=$(cd "$build" && pwd)
trials=$build/bin/fault_trials
[ -x "$trials" ] || { echo "faults: no $trials; build the tests first (bash tests/run.sh, or the target fault_trials)" >&2; exit 2; }

options=() kinds=(power-cuts errors kills second-writer small-disks training-loop crowd)
[ $length = long ] && options+=(--long) && kinds+=(image-cuts)
if command -v strace >/dev/null; then
  options+=(--tool "$build/bin/ckpt") kinds+=(system-calls)
else
  echo "system calls of the tool: not run, there is no strace"
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
status=0
for kind in "${kinds[@]}"; do
  "$trials" "${options[@]}" "$kind" >>"$out" || status=1
done

# fault|operation|points|violations: kinds of errors and of short writes in one line each.
awk -F '|' 'NF == 4 {
    all += $3; all_wrong += $4
    fault = $1
    if ($2 ~ /^(training loop|saves of one name|reads meanwhile)$/) {
      whole = whole $2 ", " fault ": " $3 ", violations: " $4 "\n"
      next
    }
    if (fault ~ /^error .* of the tool$/) fault = "error at a system call of the tool"
    else if (fault ~ /^error /) fault = "error at a call"
    if (!(fault in order)) { order[fault] = ++count; names[count] = fault }
    if (!($2 in seen)) { seen[$2] = ++rows; lines[rows] = $2 }
    points[$2, fault] += $3; bad[$2, fault] += $4; sum[fault] += $3; wrong[fault] += $4
  }
  function cell(p, b) { return p == "" ? "-" : b > 0 ? p " (" b " bad)" : p }
  END {
    head = "| operation |"; rule = "|---|"
    for (i = 1; i <= count; i++) { head = head " " names[i] " |"; rule = rule "--:|" }
    print head; print rule
    for (r = 1; r <= rows; r++) {
      line = "| " lines[r] " |"
      for (i = 1; i <= count; i++) line = line " " cell(points[lines[r], names[i]], bad[lines[r], names[i]]) " |"
      print line
    }
    line = "| all |"
    for (i = 1; i <= count; i++) line = line " " cell(sum[names[i]], wrong[names[i]]) " |"
    print line
    printf "\n%s", whole
    print "points tried: " all ", violations: " all_wrong
  }' "$out"
grep -E '^power-cut states|not run|^states from which' "$out" || true
bash "$root/tests/faults/planted.sh" "$build" || status=1
exit $status
